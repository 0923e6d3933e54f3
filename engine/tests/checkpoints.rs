//! Checkpoints are exact continuations, and damaged ones are refused.

mod common;

use common::{fixture, load, load_with, sampled, session, Rng, LFM2, LLAMA};
use lean_engine::{
    Block, CancelToken, Checkpoint, Error, Event, LoadOptions, Model, Restore, Restored, SaveOptions, Session,
};

const TYPE: &str = r#"{"id": "number.integer", "name": "string < 24", "kind": "'bug' | 'feature'", "tags": "(string < 8)[] <= 3"}"#;

fn prepared(model: &Model) -> Session {
    let mut s = session(model);
    s.append(&[Block::text(
        "A report about 12345 things, é and 🙂, and what to do about them all, one by one.",
    )])
    .unwrap();
    s
}

/// All events from here on, the value's text, and the logits of one more step.
fn rest(mut s: Session, mut events: Vec<Event>, resume: bool) -> (Vec<Event>, String, Vec<u32>) {
    let mut g =
        if resume { s.resume(CancelToken::new()).unwrap() } else { s.generate(&sampled(TYPE, 7)).unwrap() };
    while let Some(event) = g.next().unwrap() {
        events.push(event);
    }
    let text = g.finish().unwrap().text;
    let logits = s.forward(&[5]).unwrap();
    events.retain(|e| matches!(e, Event::Token { .. } | Event::Text { .. }));
    (events, text, logits.into_iter().map(f32::to_bits).collect())
}

#[test]
fn a_value_cut_anywhere_continues_bit_for_bit() {
    for name in [LLAMA, LFM2] {
        let model = load(name);
        let whole = rest(prepared(&model), Vec::new(), false);
        let total = whole.0.len();
        for cut in 0..total {
            let mut s = prepared(&model);
            let mut g = s.generate(&sampled(TYPE, 7)).unwrap();
            let mut seen = Vec::new();
            while seen.len() < cut {
                match g.next().unwrap() {
                    Some(event @ (Event::Token { .. } | Event::Text { .. })) => seen.push(event),
                    Some(_) => {}
                    None => break,
                }
            }
            let live = g.checkpoint().unwrap();
            let stored = Checkpoint::from_bytes(&live.to_bytes().unwrap()).unwrap();
            drop(g);
            drop(s);
            let shared = model.restore(&live, Restore::Exact).unwrap();
            assert_eq!(shared.restored(), Some(Restored::Shared));
            assert!(shared.can_resume());
            assert_eq!(rest(shared, seen.clone(), true), whole, "{name} in memory, cut at {cut}");
            let imported = model.restore(&stored, Restore::Exact).unwrap();
            assert_eq!(imported.restored(), Some(Restored::Imported));
            assert_eq!(rest(imported, seen, true), whole, "{name} from bytes, cut at {cut}");
        }
    }
}

#[test]
fn a_session_continues_from_bytes_in_another_model_object() {
    for name in [LLAMA, LFM2] {
        let (model, other) = (load(name), load(name));
        let s = prepared(&model);
        let bytes = s.checkpoint().unwrap().to_bytes().unwrap();
        let cp = Checkpoint::from_bytes(&bytes).unwrap();
        let whole = rest(s, Vec::new(), false);
        assert_eq!(rest(other.restore(&cp, Restore::Exact).unwrap(), Vec::new(), false), whole);
        // Computed again from the tokens, the same class gives the same bits.
        let again = other.restore(&cp, Restore::Reprefill).unwrap();
        assert_eq!(again.restored(), Some(Restored::Reprefilled));
        assert_eq!(rest(again, Vec::new(), false), whole);
    }
}

#[test]
fn checkpoints_branch_and_outlive_their_source() {
    let model = load(LLAMA);
    let mut s = prepared(&model);
    let cp = s.checkpoint().unwrap();
    s.append(&[Block::text(" Something else entirely, which the branches must not see.")]).unwrap();
    drop(s);
    let a = rest(model.restore(&cp, Restore::Exact).unwrap(), Vec::new(), false);
    let b = rest(model.restore(&cp, Restore::Exact).unwrap().fork().unwrap(), Vec::new(), false);
    assert_eq!(a, b);
    assert_eq!(a, rest(prepared(&model), Vec::new(), false));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_refused() {
    let model = load(LFM2);
    let mut s = prepared(&model);
    let mut g = s.generate(&sampled(TYPE, 3)).unwrap();
    for _ in 0..12 {
        g.next().unwrap();
    }
    let bytes = g.checkpoint().unwrap().to_bytes().unwrap();
    let refused = |bytes: &[u8], what: &str| match Checkpoint::from_bytes(bytes) {
        Err(Error::BadCheckpoint { .. } | Error::Incompatible { .. }) => {}
        other => panic!("{what}: {other:?}"),
    };
    let mut rng = Rng(42);
    for _ in 0..400 {
        let (at, bit) = (rng.below(bytes.len()), rng.below(8));
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        refused(&damaged, &format!("bit {bit} of byte {at}"));
    }
    for header in 0..140 * 8 {
        let mut damaged = bytes.clone();
        damaged[header / 8] ^= 1 << (header % 8);
        refused(&damaged, &format!("header bit {header}"));
    }
    for _ in 0..50 {
        let len = rng.below(bytes.len());
        refused(&bytes[..len], &format!("cut to {len} bytes"));
    }
    refused(&[bytes.clone(), vec![0]].concat(), "one byte too many");
    refused(b"GGUF", "another kind of file");
    refused(b"", "nothing");
}

#[test]
fn a_checkpoint_of_another_model_or_class_is_refused() {
    let (model, other) = (load(LLAMA), load(LFM2));
    let cp = prepared(&model).checkpoint().unwrap();
    match other.restore(&cp, Restore::Exact).map(|_| ()) {
        Err(Error::Incompatible { what, .. }) => assert_eq!(what, "model fingerprint"),
        other => panic!("{other:?}"),
    }
    let portable = load_with(LLAMA, LoadOptions { portable: true, ..Default::default() });
    if portable.info().exactness_class != model.info().exactness_class {
        match portable.restore(&cp, Restore::Exact).map(|_| ()) {
            Err(Error::Incompatible { what, .. }) => assert_eq!(what, "exactness class"),
            other => panic!("{other:?}"),
        }
        let converted = portable.restore(&cp, Restore::Convert).unwrap();
        assert_eq!(converted.restored(), Some(Restored::Converted));
    }
}

#[test]
fn the_file_is_little_larger_than_the_state() {
    let model = load(LLAMA);
    let mut s = session(&model);
    let ids: Vec<u32> = (0..300).map(|i| 20 + i % 200).collect();
    s.append(&[Block::Tokens(ids)]).unwrap();
    let cp = s.checkpoint().unwrap();
    let info = cp.info().unwrap();
    let bytes = cp.to_bytes().unwrap().len() as u64;
    assert_eq!(info.state_bytes, 299 * model.info().state_bytes_per_token);
    assert!(bytes * 100 <= info.state_bytes * 105, "{bytes} bytes for {} of state", info.state_bytes);
}

/// The value's text and the next logits' bits from a checkpoint.
fn continued(model: &Model, cp: &Checkpoint) -> (String, Vec<u32>) {
    let all = rest(model.restore(cp, Restore::Exact).unwrap(), Vec::new(), false);
    (all.1, all.2)
}

#[test]
fn compressed_and_delta_bytes_continue_bit_for_bit() {
    for name in [LLAMA, LFM2] {
        let model = load(name);
        let mut s = prepared(&model);
        let more = " and what more there is to say of them, at length and with patience";
        s.append(&[Block::text(more.repeat(3))]).unwrap();
        let parent = s.checkpoint().unwrap();
        s.append(&[Block::text(" Now the part that only the child knows.")]).unwrap();
        let child = s.checkpoint().unwrap();
        let whole = child.to_bytes().unwrap();
        let expected = continued(&model, &child);
        for (compress, parent) in [(true, None), (false, Some(&parent)), (true, Some(&parent))] {
            let bytes = child.to_bytes_with(&SaveOptions { compress, parent }).unwrap();
            assert!(bytes.len() < whole.len(), "{name}: {} of {}", bytes.len(), whole.len());
            let file = Checkpoint::inspect(&bytes).unwrap();
            assert_eq!((file.version, file.compression.is_some()), (2, compress));
            assert_eq!(file.parent_pages.is_some(), parent.is_some());
            assert_eq!(file.info, child.info().unwrap());
            let read = match parent {
                Some(parent) => {
                    assert!(matches!(Checkpoint::from_bytes(&bytes), Err(Error::Incompatible { .. })));
                    // The parent may itself have been stored meanwhile.
                    let stored = Checkpoint::from_bytes(&parent.to_bytes().unwrap()).unwrap();
                    Checkpoint::from_delta(&bytes, &stored).unwrap()
                }
                None => Checkpoint::from_bytes(&bytes).unwrap(),
            };
            assert_eq!(continued(&model, &read), expected, "{name}, compress {compress}");
        }
        assert_eq!(Checkpoint::inspect(&whole).unwrap().version, 1, "what version 1 can say is version 1");
    }
}

#[test]
fn a_delta_needs_its_own_parent() {
    let model = load(LLAMA);
    let mut s = prepared(&model);
    s.append(&[Block::text("Many words, so that whole pages are shared. ".repeat(4))]).unwrap();
    let parent = s.checkpoint().unwrap();
    s.append(&[Block::text(" Child.")]).unwrap();
    let bytes = s
        .checkpoint()
        .unwrap()
        .to_bytes_with(&SaveOptions { compress: false, parent: Some(&parent) })
        .unwrap();
    let mut other = session(&model);
    other.append(&[Block::text("Other words that fill as many pages or more. ".repeat(6))]).unwrap();
    for stranger in [other.checkpoint().unwrap(), prepared(&model).checkpoint().unwrap()] {
        match Checkpoint::from_delta(&bytes, &stranger) {
            Err(Error::Incompatible { what, .. }) => assert_eq!(what, "parent of the delta"),
            other => panic!("{other:?}"),
        }
    }
    let foreign = prepared(&load(LFM2)).checkpoint().unwrap();
    assert!(matches!(Checkpoint::from_delta(&bytes, &foreign), Err(Error::Incompatible { .. })));
    let saved = prepared(&model).checkpoint().unwrap();
    let options = SaveOptions { compress: false, parent: Some(&foreign) };
    assert!(matches!(saved.to_bytes_with(&options), Err(Error::Incompatible { .. })));
    let mut rng = Rng(7);
    for _ in 0..200 {
        let mut damaged = bytes.clone();
        let (at, bit) = (rng.below(bytes.len()), rng.below(8));
        damaged[at] ^= 1 << bit;
        assert!(Checkpoint::from_delta(&damaged, &parent).is_err(), "bit {bit} of byte {at}");
    }
}

/// What version 1 wrote stays readable for good: the files are never made again, only added to.
#[test]
fn files_of_version_1_are_read_and_continue() {
    let folder = fixture("../checkpoints");
    for name in [LLAMA, LFM2] {
        let model = load_with(name, LoadOptions { portable: true, ..Default::default() });
        let (file, text) = (folder.join(format!("{name}.v1.ckpt")), folder.join(format!("{name}.v1.txt")));
        if std::env::var_os("UPDATE_GOLDEN").is_some() && !file.exists() {
            std::fs::create_dir_all(&folder).unwrap();
            let mut s = prepared(&model);
            let mut g = s.generate(&sampled(TYPE, 11)).unwrap();
            (0..9).for_each(|_| drop(g.next().unwrap()));
            g.checkpoint().unwrap().save(&file).unwrap();
            std::fs::write(&text, g.finish().unwrap().text).unwrap();
        }
        let cp = Checkpoint::load(&file).unwrap();
        assert!(cp.info().unwrap().in_value);
        // A later kernel revision is another class; the state is then taken over, not refused.
        let mut s = model.restore(&cp, Restore::Convert).unwrap();
        let value = s.resume(CancelToken::new()).unwrap().finish().unwrap().text;
        assert_eq!(value, std::fs::read_to_string(&text).unwrap(), "{name}");
    }
}

#[test]
fn saving_is_atomic_and_loading_names_the_file() {
    let dir = std::env::temp_dir().join(format!("lean-checkpoint-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("session.ckpt");
    std::fs::write(&path, b"the old content").unwrap();
    let model = load(LLAMA);
    let cp = prepared(&model).checkpoint().unwrap();
    let written = cp.save(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), written);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "no temporary file is left");
    assert_eq!(Checkpoint::load(&path).unwrap().tokens(), cp.tokens());
    match Checkpoint::load(dir.join("missing.ckpt")) {
        Err(Error::Io { path, .. }) => assert!(path.contains("missing.ckpt")),
        other => panic!("{other:?}"),
    }
    match cp.save(dir.join("no/such/folder.ckpt")) {
        Err(Error::Io { .. }) => {}
        other => panic!("{other:?}"),
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[cfg(unix)]
#[test]
fn saving_follows_links_keeps_permissions_and_replaces_only_files() {
    use std::os::unix::fs::{symlink, PermissionsExt};
    let dir = std::env::temp_dir().join(format!("lean-targets-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let cp = prepared(&load(LLAMA)).checkpoint().unwrap();
    let (real, link) = (dir.join("real.ckpt"), dir.join("link.ckpt"));
    cp.save(&real).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.ckpt", &link).unwrap();
    cp.save(&link).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    cp.save(dir.join("x".repeat(250))).unwrap();
    for refused in [std::path::Path::new("/dev/null"), &dir, std::path::Path::new("/")] {
        assert!(matches!(cp.save(refused), Err(Error::Io { .. })), "{}", refused.display());
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 3);
    std::fs::remove_dir_all(&dir).unwrap();
}
