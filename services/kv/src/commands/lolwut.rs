//! LOLWUT: a picture and the version. Redis draws another one with each version; here it is what the project has its name from.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;

commands! { "server":
    "lolwut", -1, [READ FAST], NO_KEYS, "5.0.0", "Displays a picture and the version." => lolwut;
}

/// A qanat: shafts that lead down to a channel, by which water flows from a mountain to fields.
const PICTURE: &str = r"
      /\
     /  \____
    /   |    \____
   /    |    |    \____
  /     |    |    |    \______________
 /~~~~~~|~~~~|~~~~|~~~~~~~~~~~~~> , , ,
";

fn lolwut(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.args.len() > 2 && call.args.is(1, "VERSION") {
        // There is one picture, whatever the version.
        call.integer(2)?;
    }
    let (own, redis) = (env!("CARGO_PKG_VERSION"), crate::limits::REDIS_VERSION);
    call.reply.verbatim(&format!("{PICTURE}\nQanat ver. {own}, with the commands of Redis ver. {redis}\n"));
    Ok(())
}
