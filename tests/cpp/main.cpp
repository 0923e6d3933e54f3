// The C++ header over the library: `harness test MODEL ADAPTER FOLDER`, `harness abort value|error`.
#include <lean.hpp>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

static int failed = 0;

static void check(bool ok, const char* what, int line) {
  std::printf("%s %s", ok ? "ok  " : "FAIL", what);
  if (!ok) std::printf(" (line %d)", line), failed = 1;
  std::printf("\n");
  std::fflush(stdout);
}
#define CHECK(condition) check((condition), #condition, __LINE__)

/// The value, or the end of the program: what follows would make no sense.
template <typename T>
static T need(lean::Result<T> result, int line) {
  if (result) return std::move(*result);
  std::printf("FAIL line %d: %s: %s\n", line, std::string(result.error().name()).c_str(), result.error().message().c_str());
  std::exit(1);
}
#define NEED(result) need((result), __LINE__)

template <typename T>
static bool fails(const lean::Result<T>& result, lean_status code) {
  if (!result && result.error().code() != code) std::printf("     got: %s\n", result.error().message().c_str());
  return !result && result.error().code() == code && !result.error().message().empty();
}

namespace app {

struct Author {
  std::string name;
  int age = 0;
};
auto describe(lean::Of<Author>) {
  return lean::fields(lean::field("name", &Author::name, lean::min(1).max(12)), lean::field("age", &Author::age, lean::min(0).max(150)));
}

struct Ticket {
  std::string kind;
  Author author;
  double score = 0;
  std::vector<std::string> tags;
  std::array<std::uint8_t, 2> pair{};
  bool open = false;
  std::optional<std::string> note;
  std::vector<std::optional<std::int64_t>> maybe;
  float ratio = 0;
};
auto describe(lean::Of<Ticket>) {
  return lean::fields(lean::field("kind", &Ticket::kind, lean::one_of({"bug", "feature"})), lean::field("author", &Ticket::author),
                      lean::field("score", &Ticket::score, lean::min(0).max(1)),
                      lean::field("tags", &Ticket::tags, lean::max(3).items(lean::max(4))), lean::field("pair/~", &Ticket::pair),
                      lean::field("open", &Ticket::open), lean::field("note", &Ticket::note, lean::max(5)),
                      lean::field("maybe", &Ticket::maybe, lean::max(2)), lean::field("ratio", &Ticket::ratio));
}

struct Weather {
  std::string city, unit;
  std::optional<std::int64_t> days;
};
auto describe(lean::Of<Weather>) {
  return lean::fields(lean::field("city", &Weather::city, lean::max(6)), lean::field("unit", &Weather::unit, lean::one_of({"c", "f"})),
                      lean::field("days", &Weather::days, lean::min(1).max(7)));
}

struct Tree {
  std::uint64_t id = 0;
  std::vector<Tree> children;
};
auto describe(lean::Of<Tree>) {
  return lean::fields(lean::field("id", &Tree::id), lean::field("children", &Tree::children, lean::max(2)));
}

}  // namespace app

static void test_schemas() {
  CHECK(lean::schema_of<app::Tree>() ==
        R"({"$ref":"#/$defs/0","$defs":{"0":{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":9223372036854775807},)"
        R"("children":{"type":"array","items":{"$ref":"#/$defs/0"},"maxItems":2}},"required":["id","children"],"additionalProperties":false}}})");
  CHECK(lean::schema_of<std::vector<std::int8_t>>() == R"({"type":"array","items":{"type":"integer","minimum":-128,"maximum":127}})");
  CHECK(lean::schema_of<app::Author>() ==
        R"({"$ref":"#/$defs/0","$defs":{"0":{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":12},)"
        R"("age":{"type":"integer","minimum":0,"maximum":150}},"required":["name","age"],"additionalProperties":false}}})");
  using lean::Schema;
  const auto built = Schema::object()
                         .field("id", Schema::integer().min(1))
                         .optional("na\"me", Schema::string().max(3).pattern("^a"))
                         .field("x", Schema::any_of({Schema::null(), Schema::one_of({"a", "b"}), Schema::number().greater(0).less(1.5).step(0.5)}))
                         .field("y", Schema::map(Schema::any()).max(2))
                         .field("z", Schema::array(Schema::boolean()).min(1).max(2))
                         .field("d", Schema::string().format("date"))
                         .field("r", Schema::raw(R"({"const":1})"));
  CHECK(built.json() ==
        R"({"type":"object","properties":{"id":{"type":"integer","minimum":1},"na\"me":{"type":"string","maxLength":3,"pattern":"^a"},)"
        R"("x":{"anyOf":[{"type":"null"},{"type":"string","enum":["a","b"]},{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1.5,"multipleOf":0.5}]},)"
        R"("y":{"type":"object","additionalProperties":{},"maxProperties":2},"z":{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2},)"
        R"("d":{"type":"string","format":"date"},"r":{"const":1}},"required":["id","x","y","z","d","r"],"additionalProperties":false})");
  CHECK(built.type().ok());
  CHECK(fails(Schema::string().pattern("(").type(), LEAN_TYPE));
  CHECK(fails(lean::Type::expr("{\"a\": \"nmber\"}"), LEAN_TYPE));
  CHECK(lean::Type::expr("{\"a\": \"nmber\"}").error().string("at").value_or("") == "character 1 of /a");
  CHECK(NEED(lean::Type::regex("[a-z]+")).warnings().ok());
  CHECK(NEED(NEED(lean::Type::choice({"yes", "no"})).schema()).find("yes") != std::string::npos);
}

static void test_errors(const lean::Model& model) {
  const auto missing = lean::Model::load("no/such.gguf");
  CHECK(fails(missing, LEAN_MODEL_IO));
  CHECK(missing.error().name() == "model_io");
  CHECK(missing.error().string("path").value_or("") == "no/such.gguf");
  CHECK(!missing.error().number("needed"));
  const lean::Error copy = missing.error();
  CHECK(copy.message() == missing.error().message());
  CHECK(lean::Result<int>(copy).value_or(7) == 7);

  const auto text = NEED(lean::Type::text());
  auto session = NEED(model.session(4));
  const auto overflow = session.append(lean::Context().text("this is far too long for four tokens of context"));
  CHECK(fails(overflow, LEAN_CONTEXT_OVERFLOW));
  CHECK(overflow.error().number("available") == std::optional<std::uint64_t>(4));
  CHECK(fails(model.generate(lean::Context().json("{"), text), LEAN_INVALID_ARGUMENT));
  CHECK(fails(session.append(lean::Context().json("{").text("fine")), LEAN_INVALID_ARGUMENT));
  CHECK(NEED(session.tokens()).empty());

  auto moved = std::move(session);
  CHECK(fails(session.checkpoint(), LEAN_INVALID_ARGUMENT));
  CHECK(moved.checkpoint().ok());
  CHECK(moved.capacity().value() == 4);
}

static void test_values(const lean::Model& model) {
  bool all = true;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    lean::GenerateOptions options;
    options.max_tokens = 200;
    options.temperature = 1.5F;
    options.seed = seed;
    const auto t = NEED(lean::generate<app::Ticket>(model, lean::Context().text("A ticket: "), options));
    all = all && (t.kind == "bug" || t.kind == "feature") && !t.author.name.empty() && t.author.age >= 0 && t.author.age <= 150 && t.score >= 0 &&
          t.score <= 1 && t.tags.size() <= 3 && t.maybe.size() <= 2;
  }
  CHECK(all);
  lean::GenerateOptions options;
  options.max_tokens = 60;
  options.seed = 3;
  options.temperature = 1;
  CHECK(NEED(lean::generate<app::Tree>(model, lean::Context(), options)).children.size() <= 2);
  CHECK(lean::generate<std::optional<bool>>(model, lean::Context(), options).ok());
  CHECK(!NEED(lean::generate<std::string>(model, lean::Context().text("Once"), options)).empty());

  // What comes out is what was generated.
  const auto type = NEED(lean::type_of<app::Author>());
  const auto output = NEED(model.generate(lean::Context().message("user", "An author."), type, options));
  const auto author = NEED(lean::value_of<app::Author>(output));
  CHECK(NEED(output.string("/name")) == author.name);
  CHECK(NEED(output.integer("/age")) == author.age);
  CHECK(NEED(output.count("")) == 2);
  CHECK(NEED(output.kind("")) == LEAN_KIND_OBJECT);
  CHECK(fails(output.kind("/nothing"), LEAN_INVALID_ARGUMENT));
  CHECK(NEED(output.finish()) == lean::Finish::complete);
  CHECK(NEED(output.json()) == NEED(output.text()));
  CHECK(NEED(output.usage()).sampled_tokens + NEED(output.usage()).forced_tokens == NEED(output.tokens()).size());

  options.stop = {"\n", " "};
  options.max_tokens = 5;
  CHECK(model.generate(lean::Context().text("a b"), NEED(lean::Type::text(40)), options).ok());
  CHECK(fails(lean::generate<app::Author>(model, lean::Context(), options), LEAN_INVALID_ARGUMENT));
}

static void test_replies(const lean::Model& model) {
  const std::string tools =
      R"([{"type":"function","function":{"name":"weather","description":"The weather","parameters":{"type":"object","properties":)"
      R"({"city":{"type":"string","maxLength":6},"unit":{"enum":["c","f"]},"days":{"type":"integer","minimum":1,"maximum":7}},)"
      R"("required":["city","unit"]}}},{"name":"now"}])";
  lean::GenerateOptions options;
  options.max_tokens = 100;
  options.temperature = 1.5F;
  for (const char* syntax : {"", "hermes", "llama", "gemma", "pythonic"}) {
    lean::ToolOptions one;
    one.tool = "weather";
    one.syntax = syntax;
    lean::ToolOptions any;
    any.required = true;
    any.several = false;
    any.syntax = syntax;
    bool all = true;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      options.seed = seed;
      for (const auto* choice : {&one, &any}) {
        const auto output = NEED(model.generate(lean::Context().text("Oslo?"), NEED(lean::Type::tools(tools, *choice)), options));
        const auto reply = NEED(lean::reply_of(output));
        all = all && reply.calls.size() == 1 && reply.text.empty() && (choice == &any || reply.calls[0].name == "weather");
        if (reply.calls[0].name != "weather") continue;
        const auto weather = NEED(lean::arguments_of<app::Weather>(output, reply.calls[0]));
        all = all && (weather.unit == "c" || weather.unit == "f") && weather.days.value_or(1) >= 1 && weather.days.value_or(1) <= 7;
        all = all && NEED(output.string(reply.calls[0].at + "/city")) == weather.city;
      }
    }
    CHECK(all);
  }
  const auto free = NEED(model.generate(lean::Context().text("Oslo?"), NEED(lean::Type::tools(tools)), options));
  CHECK(lean::reply_of(free).ok());
  CHECK(fails(lean::Type::tools("[]"), LEAN_TYPE));
  CHECK(fails(lean::Type::tools(R"([{"name":"a"}])", {false, "b", true, ""}), LEAN_TYPE));
  CHECK(!lean::Type::tools("[", {}).ok());
  CHECK(!lean::Type::tools("[]", {false, "", true, "basic"}).ok());
}

static void test_confidence(const lean::Model& model) {
  const auto type = NEED(lean::Type::expr(R"({"kind": "'bug' | 'feature'", "open": "boolean"})"));
  lean::GenerateOptions options;
  options.max_tokens = 40;
  options.confidence = true;
  const auto sure = NEED(NEED(model.generate(lean::Context().text("An issue: "), type, options)).confidence());
  CHECK(sure.find(R"({"logprob":-)") == 0);
  CHECK(sure.find(R"("path":"/kind")") != std::string::npos && sure.find(R"("path":"/open")") != std::string::npos);
  CHECK(sure.find(R"("value":"feature")") != std::string::npos && sure.find(R"("value":false)") != std::string::npos);
  options.confidence = false;
  CHECK(NEED(NEED(model.generate(lean::Context().text("An issue: "), type, options)).confidence()) == "null");
}

static void test_streams(const lean::Model& model) {
  auto session = NEED(model.session());
  std::uint64_t told = 0;
  lean::PrefillOptions prefill;
  prefill.progress = [&](std::uint64_t done, std::uint64_t) { return told = done, true; };
  CHECK(session.append(lean::Context().text("An author: "), prefill).ok());
  CHECK(told > 0);
  const auto tokens = NEED(session.tokens());

  const auto type = NEED(lean::type_of<app::Author>());
  lean::GenerateOptions options;
  options.max_tokens = 60;
  options.partials = true;
  lean::Stream stream = NEED(session.generate(type, options));
  CHECK(fails(session.checkpoint(), LEAN_BUSY));
  std::string text, partial;
  std::optional<lean::Checkpoint> middle;
  std::string before;
  for (int n = 0;; ++n) {
    auto event = NEED(stream.next());
    if (!event) break;
    if (event->kind == LEAN_EVENT_PARTIAL) {
      partial = event->text;
    } else {
      text += event->text;
    }
    if (n == 6) before = text, middle = NEED(stream.checkpoint());
  }
  CHECK(!stream.pending());
  CHECK(NEED(stream.partial()) == text);
  const auto output = NEED(stream.finish());
  CHECK(NEED(output.text()) == text);
  CHECK(partial == text);
  CHECK(NEED(session.tokens()).size() > tokens.size());

  // The middle of the value, finished in another session.
  auto other = NEED(model.restore(*middle));
  CHECK(NEED(other.can_resume()));
  auto rest = NEED(other.resume());
  std::string after;
  while (auto event = NEED(rest.next(std::chrono::milliseconds(10)))) {
    if (event->kind != LEAN_EVENT_PARTIAL) after += event->text;
  }
  CHECK(rest.pending() || before + after == text);
  CHECK(NEED(NEED(rest.finish()).text()) == text);

  // A stream that is destroyed gives the session back as it was.
  const auto now = NEED(session.tokens());
  {
    auto left = NEED(session.generate(type));
    NEED(left.next());
  }
  CHECK(NEED(session.tokens()) == now);

  const auto cancel = NEED(lean::Cancel::make());
  options.cancel = &cancel;
  auto stopped = NEED(session.generate(type, options));
  cancel.trigger();
  CHECK(cancel.triggered());
  // Events that were on their way come first.
  auto next = stopped.next();
  while (next && *next) next = stopped.next();
  CHECK(fails(next, LEAN_CANCELLED));
  CHECK(fails(stopped.finish(), LEAN_CANCELLED));
  options.cancel = nullptr;
  options.timeout = std::chrono::milliseconds(0);
  CHECK(fails(lean::generate<app::Author>(session, options), LEAN_TIMEOUT));
  prefill.progress = [](std::uint64_t, std::uint64_t) { return false; };
  CHECK(fails(session.append(lean::Context().text("more of it"), prefill), LEAN_CANCELLED));
  CHECK(NEED(session.tokens()) == now);
  options.timeout.reset();
  CHECK(lean::generate<app::Author>(session, options).ok());
}

static void test_sessions(const lean::Model& model, const std::string& folder, const std::string& adapter_path) {
  auto session = NEED(model.session());
  std::string long_text = "Once upon a time";
  for (int i = 0; i < 20; ++i) long_text += " and a time before that";
  CHECK(session.append(lean::Context().text(long_text)).ok());
  const auto parent = NEED(session.checkpoint());
  CHECK(session.append(lean::Context().text(", a machine")).ok());
  const auto checkpoint = NEED(session.checkpoint());
  CHECK(NEED(checkpoint.tokens()) == NEED(session.tokens()));
  lean::GenerateOptions options;
  options.max_tokens = 6;
  auto fork = NEED(session.fork());
  const auto want = NEED(lean::generate<std::string>(fork, options));

  const std::string file = folder + "/state.lean";
  const auto size = NEED(checkpoint.save(file));
  const auto bytes = NEED(checkpoint.to_bytes());
  CHECK(bytes.size() == size);
  const auto delta = NEED(checkpoint.to_bytes(false, &parent));
  CHECK(delta.size() < bytes.size());
  CHECK(NEED(checkpoint.to_bytes(true)).size() <= bytes.size());
  bool same = true;
  for (auto* from : {new auto(NEED(lean::Checkpoint::from_bytes(bytes))), new auto(NEED(lean::Checkpoint::load(file))),
                     new auto(NEED(lean::Checkpoint::from_delta(delta, parent)))}) {
    auto restored = NEED(model.restore(*from));
    same = same && NEED(lean::generate<std::string>(restored, options)) == want;
    delete from;
  }
  CHECK(same);
  CHECK(NEED(NEED(model.restore(checkpoint)).restored()) == LEAN_RESTORED_SHARED);
  CHECK(NEED(checkpoint.info()).find("\"tokens\"") != std::string::npos);
  auto damaged = bytes;
  damaged[damaged.size() / 2] ^= 1;
  CHECK(fails(lean::Checkpoint::from_bytes(damaged), LEAN_BAD_CHECKPOINT));
  lean::Context at;
  at.from(checkpoint);
  CHECK(NEED(lean::generate<std::string>(model, at, options)) == want);

  const auto length = NEED(session.tokens()).size();
  // What followed runs again, but for the last token, which runs with the next step.
  CHECK(NEED(session.drop_range(2, 5)) == length - 6);
  CHECK(session.truncate(2).ok());
  CHECK(NEED(session.tokens()).size() == 2);
  CHECK(NEED(session.set_context(lean::Context().text(long_text))) >= 2);
  CHECK(!session.truncate(100000).ok());

  const auto info = NEED(model.info());
  CHECK(info.find("\"vocab_size\":1024") != std::string::npos);
  CHECK(NEED(session.forward({5, 6}, 1024)).size() == 1024);
  const auto ids = NEED(model.tokenize(lean::Context().text("Once upon")));
  CHECK(NEED(model.detokenize(ids)) == "Once upon");
  CHECK(NEED(model.render_chat(R"([{"role":"user","content":"Hi"}])")).find("Hi") != std::string::npos);

  const auto adapter = NEED(model.load_adapter(adapter_path));
  CHECK(NEED(adapter.info()).find("fingerprint") != std::string::npos);
  auto adapted = NEED(model.restore(checkpoint));
  CHECK(adapted.set_adapters({{&adapter, 4.0F}}).ok());
  CHECK(lean::generate<std::string>(adapted, options).ok());
  CHECK(fails(adapted.set_adapters({{nullptr, 1.0F}}), LEAN_INVALID_ARGUMENT));
}

static void test_many(const lean::Model& model) {
  const auto type = NEED(lean::Type::text());
  lean::Context context;
  context.text("Once upon a time");
  std::vector<lean::Branch> branches(4);
  std::vector<std::string> alone;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    auto& b = branches[i];
    b.type = &type;
    b.context = &context;
    b.options.seed = i;
    b.options.temperature = 0.8F;
    b.options.max_tokens = 10;
    alone.push_back(NEED(NEED(model.generate(context, type, b.options)).text()));
  }
  auto many = NEED(model.generate_many(branches));
  std::vector<std::string> together;
  for (auto& s : many.streams) together.push_back(NEED(NEED(s.finish()).text()));
  CHECK(together == alone);
  CHECK(many.sessions.size() == 4 && !NEED(many.sessions[3].tokens()).empty());
  auto session = NEED(model.session());
  CHECK(session.generate_many(branches).ok());
  branches[1].type = nullptr;
  CHECK(fails(model.generate_many(branches), LEAN_INVALID_ARGUMENT));
  CHECK(NEED(model.stats()).passes > 0);
  CHECK(model.set_prefix_cache(0).ok());

  // Sessions of one model on two threads.
  std::vector<std::string> found(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] { found[i] = NEED(NEED(model.generate(context, type, branches[i * 2].options)).text()); });
  }
  for (auto& t : threads) t.join();
  CHECK(found[0] == alone[0] && found[1] == alone[2]);
}

static void test_port() {
  using Wait = lean::Port::Wait;
  const auto soon = std::chrono::milliseconds(100000);
  const auto port = NEED(lean::Port::open());
  std::vector<std::uint8_t> got;
  CHECK(NEED(port.receive(got, soon)) == Wait::done);
  CHECK(got.size() > 24 && std::memcmp(got.data(), "\x89LEAN\r\n\x1a", 8) == 0);
  CHECK(NEED(port.receive(got, std::chrono::milliseconds(0))) == Wait::pending);
  // HELLO_ACK at minor 0 with a credit of 32, and SHUTDOWN as request 7.
  const unsigned char frames[] = {3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 7, 0, 0, 0, 16, 0, 4, 0, 0, 0, 0, 0};
  CHECK(NEED(port.send(frames, sizeof frames, soon)) == Wait::done);
  const std::size_t before = got.size();
  CHECK(NEED(port.receive(got, soon)) == Wait::done);
  CHECK(got.size() == before + 16 && got[before + 4] == 7 && got[before + 8] == 0x16);  // OK
  CHECK(NEED(port.receive(got, soon)) == Wait::ended);
  CHECK(NEED(port.state()) == LEAN_PORT_SHUTDOWN);
  CHECK(NEED(port.send(frames, sizeof frames, soon)) == Wait::ended);
  // One thread waits, another closes.
  auto other = NEED(lean::Port::open());
  std::thread waiting([&] {
    std::vector<std::uint8_t> all;
    while (NEED(other.receive(all)) == Wait::done) {}
  });
  CHECK(other.close().ok());
  waiting.join();
  CHECK(NEED(other.state()) == LEAN_PORT_CLOSED);
  const auto moved = std::move(other);
  CHECK(fails(other.close(), LEAN_INVALID_ARGUMENT));
  CHECK(moved.close().ok());
}

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "abort") == 0) {
    if (std::strcmp(argv[2], "value") == 0) std::printf("%d", *lean::Result<int>(lean::Error(LEAN_BUSY, "in use")));
    if (std::strcmp(argv[2], "error") == 0) std::printf("%d", lean::Result<int>(5).error().code());
    return 0;
  }
  if (argc != 5 || std::strcmp(argv[1], "test") != 0) {
    std::fprintf(stderr, "usage: harness test MODEL ADAPTER FOLDER | abort value|error\n");
    return 2;
  }
  CHECK(!lean::version().empty());
  CHECK(NEED(lean::Model::plan(argv[2])).find("\"layers\"") != std::string::npos);
  std::uint64_t last = 0;
  lean::LoadOptions options;
  options.backend = LEAN_BACKEND_CPU;
  options.threads = 2;
  options.progress = [&](std::uint64_t done, std::uint64_t total) { return last = done, done <= total; };
  const auto model = NEED(lean::Model::load(argv[2], options));
  CHECK(last > 0);
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  CHECK(fails(lean::Model::load(argv[2], options), LEAN_CANCELLED));
  test_schemas();
  test_errors(model);
  test_values(model);
  test_replies(model);
  test_confidence(model);
  test_streams(model);
  test_sessions(model, argv[4], argv[3]);
  test_many(model);
  test_port();
  return failed;
}
