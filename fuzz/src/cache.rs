//! A client of the cache: what it says is the same in whatever pieces it comes, and leaves nothing when the client has gone.

use qanat_cache::{Engine, Output, Session, Settings};

/// Small, so that items have to go for others.
const MEMORY_BYTES: u64 = 256 << 10;
/// What one input may have answered: it may ask again and again for the largest value.
const ANSWER_BYTES_MAX: usize = 4 << 20;

fn engine() -> Engine {
    Engine::new(Settings { memory_max: MEMORY_BYTES, item_max: 64 << 10, ..Settings::default() }, 1_800_000_000)
}

/// Feeds a piece, and takes all answers.
fn feed(session: &mut Session, mut piece: &[u8], engine: &mut Engine, answer: &mut Vec<u8>) {
    let mut output = Output::default();
    loop {
        let used = session.feed(piece, engine, &mut output);
        assert!(used <= piece.len());
        let written = output.len();
        output.flatten(answer);
        assert!(
            used > 0 || written > 0 || piece.is_empty() || session.is_over(),
            "nothing comes of {} bytes",
            piece.len()
        );
        piece = &piece[used..];
        let (used, most) = engine.memory();
        assert!(used <= most, "{used} of {most} bytes");
        if piece.is_empty() && !session.has_more() || session.is_over() || answer.len() > ANSWER_BYTES_MAX {
            return;
        }
    }
}

/// The first byte says how long pieces are.
pub fn cache(data: &[u8]) {
    let Some((length, input)) = data.split_first() else { return };
    let length = usize::from(*length) + 1;
    let run = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut engine = engine();
        let mut session = Session::new(true);
        let mut answer = Vec::new();
        for piece in pieces {
            feed(&mut session, piece, &mut engine, &mut answer);
            if answer.len() > ANSWER_BYTES_MAX {
                break;
            }
        }
        drop(session);
        assert_eq!(engine.memory_detached(), 0, "a client that has gone holds memory");
        engine.set_time(1_800_100_000);
        (0..10).for_each(|_| engine.sweep());
        answer
    };
    let whole = run(&mut std::iter::once(input));
    let in_pieces = run(&mut input.chunks(length));
    // Figures tell of memory, which is taken as values come.
    let has_figures = input.windows(5).any(|word| word == b"stats") || input.contains(&0x10);
    if whole.len() <= ANSWER_BYTES_MAX && !has_figures && in_pieces.len() <= ANSWER_BYTES_MAX {
        assert!(whole == in_pieces, "{} bytes of answers, {} in pieces", whole.len(), in_pieces.len());
    }
}
