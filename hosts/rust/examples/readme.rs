use lean_client::{Engine, Generate, Request, SpawnOptions, Type};

#[derive(serde::Serialize, serde::Deserialize)]
struct User {
    id: i64,
    name: String,
}

fn main() -> lean_client::Result<()> {
    let engine = Engine::spawn(SpawnOptions::default())?;
    let file = std::env::var("MODEL").unwrap_or("echo".into()); // a GGUF file, or `echo`: no weights, repeats JSON
    let model = engine.load(file, Default::default())?;
    let user = Type::expr(r#"{"id": "number.integer", "name": "string < 64"}"#);
    let example = User { id: 7, name: "Ada".into() };
    let user: User = model.generate(Request::new(user).text("Invent a user, for example: ").json(example))?;
    println!("{}", user.name);
    Ok(())
}
