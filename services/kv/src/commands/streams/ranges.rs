//! XRANGE and XREVRANGE.

use crate::commands::streams::{answer, find, ids};
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::stream::id::Id;

commands! { "stream":
    "xrange", -4, [READ], ONE, "5.0.0", "Return a range of elements in a stream, with IDs matching the specified IDs interval"
        => |call| range(call, false);
    "xrevrange", -4, [READ], ONE, "5.0.0", "Return a range of elements in a stream, with IDs matching the specified IDs interval, in reverse order (from greater to smaller IDs) compared to XRANGE"
        => |call| range(call, true);
}

fn range(call: &mut Call<'_>, is_down: bool) -> Result<(), Fault> {
    let args = call.args;
    let (first, last) = if is_down { (3, 2) } else { (2, 3) };
    let (start, end) = (ids::start(args.at(first))?, ids::end(args.at(last))?);
    let (mut count, mut index) = (usize::MAX, 4);
    while index < args.len() {
        if !args.is(index, "COUNT") || index + 1 == args.len() {
            return Err(Fault::Syntax);
        }
        let said = call.integer(index + 1)?;
        count = usize::try_from(said).unwrap_or(0);
        index += 2;
    }
    let Some(stream) = find::stream(call.state, call.database, args.at(1))? else {
        call.reply.array(0);
        return Ok(());
    };
    if count == 0 {
        call.reply.null_array();
        return Ok(());
    }
    let between = stream.range(start, end);
    let found: Vec<(Id, &[u8])> =
        if is_down { between.rev().take(count).collect() } else { between.take(count).collect() };
    answer::entries(call.reply, &found);
    Ok(())
}
