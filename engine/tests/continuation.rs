//! A checkpoint holds everything: whatever the model, wherever the cut and however it travels, the remaining
//! events and the bits of the logits are those of the run that was not interrupted.

mod common;

use common::{load, models, session, Rng};
use lean_engine::{
    Block, CancelToken, Checkpoint, Event, Generation, Model, Request, Restore, Restored, Session, Type,
};
use std::path::PathBuf;

/// Values with free text, forced runs, numbers, choices, characters of several bytes.
fn requests() -> Vec<Request> {
    let ty = |expr: &str| Type::expr(expr).unwrap();
    let penalized = |mut request: Request| {
        request.options.repetition_penalty = 1.3;
        request.options.repetition_window = 16;
        request
    };
    vec![
        penalized(Request::new(Type::text().unwrap()).max_tokens(40).sample(1.6, 1)),
        Request::new(Type::text().unwrap()).max_tokens(24),
        Request::new(ty(r#"{"a_long_name_that_is_forced": "number.integer", "kind": "'bug' | 'feature'"}"#))
            .max_tokens(160)
            .sample(0.9, 2),
        Request::new(ty(r#"{"name": "string < 24", "tags": "(string < 8)[] <= 3"}"#))
            .max_tokens(200)
            .sample(1.3, 3),
        Request::new(ty("'an é and a 🙂 that are forced' | 'something else'")),
    ]
}

/// Where a cut was, by what was going on there.
#[derive(Default, Debug)]
struct Seen {
    at_the_start: usize,
    inside: usize,
    in_a_character: usize,
    in_a_forced_run: usize,
    at_the_end: usize,
}

impl Seen {
    fn note(&mut self, model: &Model, events: &[Event], cut: usize) {
        let token = |i: usize| match events.get(i) {
            Some(Event::Token { id, text, forced }) => Some((*id, text.as_str(), *forced)),
            _ => None,
        };
        self.at_the_start += usize::from(cut == 0);
        self.at_the_end += usize::from(cut == events.len());
        self.inside += usize::from(cut > 0 && cut < events.len());
        if let (Some(before), Some(after)) = (cut.checked_sub(1).and_then(token), token(cut)) {
            self.in_a_forced_run += usize::from(before.2 && after.2);
            let bytes = model.tokenizer().bytes(before.0);
            // No stop string holds text back here, so what is missing is the rest of a character.
            self.in_a_character +=
                usize::from(std::str::from_utf8(bytes).is_err() && !before.1.ends_with('\u{fffd}'));
        }
    }
}

fn prepared(model: &Model) -> Session {
    let mut s = session(model);
    s.append(&[Block::text("A report about 12345 things, é and 🙂, and what to do about them all.")])
        .unwrap();
    s
}

fn bits(logits: Vec<f32>) -> Vec<u32> {
    logits.into_iter().map(f32::to_bits).collect()
}

/// The next `n` events that carry something of the value, or all that are left.
fn pull(g: &mut Generation<Session>, n: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < n {
        match g.next().unwrap() {
            Some(Event::Prefill { .. }) => {}
            Some(event) => events.push(event),
            None => break,
        }
    }
    events
}

/// Value tokens, text, and the bits of the logits after one more token.
fn finish(g: Generation<Session>) -> (Vec<u32>, String, Vec<u32>) {
    let (mut s, output) = g.finish_with_session();
    let output = output.unwrap();
    (output.tokens, output.text, bits(s.forward(&[5]).unwrap()))
}

fn begin(model: &Model, request: &Request) -> Generation<Session> {
    prepared(model).into_generation(request).map_err(|(_, e)| e).unwrap()
}

/// A checkpoint on its way: as it is, as bytes, as a file.
fn ways(checkpoint: &Checkpoint, file: &PathBuf) -> [(Checkpoint, Restored); 3] {
    checkpoint.save(file).unwrap();
    [
        (checkpoint.clone(), Restored::Shared),
        (Checkpoint::from_bytes(&checkpoint.to_bytes().unwrap()).unwrap(), Restored::Imported),
        (Checkpoint::load(file).unwrap(), Restored::Imported),
    ]
}

#[test]
fn every_model_continues_exactly_from_every_cut() {
    let file = std::env::temp_dir().join(format!("lean-continuation-{}.ckpt", std::process::id()));
    let mut seen = Seen::default();
    for name in models() {
        // What is restored is not restored into what it came from only.
        let (model, other) = (load(&name), load(&name));
        let mut rng = Rng(name.len() as u64);
        for (case, request) in requests().iter().enumerate() {
            let mut whole = begin(&model, request);
            let events = pull(&mut whole, usize::MAX);
            let want = finish(whole);
            let mut cuts: Vec<usize> = (0..6).map(|_| rng.below(events.len() + 1)).collect();
            cuts.extend([0, events.len()]);
            for cut in cuts {
                seen.note(&model, &events, cut);
                let mut g = begin(&model, request);
                assert_eq!(pull(&mut g, cut), events[..cut]);
                let checkpoint = g.checkpoint().unwrap();
                drop(g);
                for (way, (checkpoint, how)) in ways(&checkpoint, &file).iter().enumerate() {
                    let at = format!("{name}, request {case}, cut {cut} of {}, way {way}", events.len());
                    for target in [&model, &other] {
                        let restored = target.restore(checkpoint, Restore::Exact).unwrap();
                        let shared = *how == Restored::Shared && std::ptr::eq(target, &model);
                        let how = if shared { Restored::Shared } else { Restored::Imported };
                        assert_eq!(restored.restored(), Some(how), "{at}");
                        let mut g = restored.into_resumed(CancelToken::new()).map_err(|(_, e)| e).unwrap();
                        assert_eq!(pull(&mut g, usize::MAX), events[cut..], "{at}: events");
                        assert_eq!(finish(g), want, "{at}: tokens, text, logit bits");
                    }
                }
                // The state at the cut itself is that of its tokens, computed from nothing.
                let tokens = checkpoint.tokens();
                let mut restored = model.restore(&checkpoint, Restore::Exact).unwrap();
                let mut fresh = session(&other);
                let (got, want) =
                    (restored.forward(&[9]).unwrap(), fresh.forward(&[tokens, &[9]].concat()).unwrap());
                assert_eq!(bits(got), bits(want), "{name}, request {case}, cut {cut}: logit bits at the cut");
            }
        }
    }
    std::fs::remove_file(&file).unwrap();
    let Seen { at_the_start, inside, in_a_character, in_a_forced_run, at_the_end } = seen;
    for count in [at_the_start, inside, in_a_character, in_a_forced_run, at_the_end] {
        assert!(count > 0, "a kind of cut did not occur: {seen:?}");
    }
}
