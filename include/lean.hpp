// lean for C++17: RAII, move-only handles and results as values over lean.h. Header-only; link with liblean.
//
//   struct User { std::int64_t id; std::string name; };
//   auto describe(lean::Of<User>) {
//     return lean::fields(lean::field("id", &User::id), lean::field("name", &User::name, lean::max(63)));
//   }
//
//   auto model = lean::Model::load("smollm2.gguf");
//   if (!model) return fail(model.error());
//   auto user = lean::generate<User>(*model, lean::Context().message("user", "Invent a user."));
//
// THE RULES
// Errors. Nothing throws (compile with -fno-exceptions if you like; what the standard library does when memory runs out
//   is its own). What can fail returns a lean::Result<T>, which has either a value or a lean::Error: ask `if (result)`
//   first. Taking the value of an error, or the error of a value, is a bug of the program and ends it (std::abort).
// Ownership. Handles free themselves, in any order, and can be moved and not copied. One that was moved from, or was made
//   empty, may only be assigned to and destroyed; anything else answers LEAN_INVALID_ARGUMENT. Strings are copied out.
// Threads. As in lean.h: const functions may be called from many threads at once, the others by one thread at a time.
// Callbacks must not throw: the program ends (noexcept).

#ifndef LEAN_HPP
#define LEAN_HPP

#include "lean.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lean {

// ---- errors and results ---------------------------------------------------------------------------------------

/// Why a call failed. Cheap to copy.
class Error {
 public:
  /// An error of the program's own or of this header; those of the library come with their numbers.
  Error(lean_status code, std::string message) : code_(code), message_(std::move(message)) {}

  /// Takes an error of the library.
  static Error take(lean_status code, lean_error* error) {
    std::size_t length = 0;
    const char* text = lean_error_message(error, &length);
    Error e(code, text == nullptr ? std::string(lean_status_name(code)) : std::string(text, length));
    e.handle_ = std::shared_ptr<lean_error>(error, lean_error_free);
    return e;
  }

  /// The stable number: one of lean.h's statuses, 100 or more.
  lean_status code() const { return code_; }
  /// The number as a word, such as "context_overflow".
  std::string_view name() const { return lean_status_name(code_); }
  /// What went wrong and where, for a person.
  const std::string& message() const { return message_; }

  /// A number of the error: `needed`, `available`, `tokens`, `wanted`.
  std::optional<std::uint64_t> number(std::string_view name) const {
    std::uint64_t n = 0;
    if (handle_ && lean_error_number(handle_.get(), name.data(), name.size(), &n)) return n;
    return std::nullopt;
  }
  /// A string of the error: `what`, `reason`, `at`, `keyword`, `path`, `expected`, `found`, `partial`.
  std::optional<std::string> string(std::string_view name) const {
    std::size_t length = 0;
    const char* text = handle_ ? lean_error_string(handle_.get(), name.data(), name.size(), &length) : nullptr;
    if (text == nullptr) return std::nullopt;
    return std::string(text, length);
  }

 private:
  lean_status code_;
  std::string message_;
  std::shared_ptr<lean_error> handle_;
};

/// A value or an error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return check(), *std::get_if<0>(&held_); }
  const T& value() const& { return check(), *std::get_if<0>(&held_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&held_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  /// The value, or another one in place of an error.
  T value_or(T other) && { return ok() ? std::move(*std::get_if<0>(&held_)) : std::move(other); }

  const Error& error() const {
    if (ok()) {
      std::fputs("lean: the error of a result that has a value\n", stderr);
      std::abort();
    }
    return *std::get_if<1>(&held_);
  }

 private:
  void check() const {
    if (ok()) return;
    std::fprintf(stderr, "lean: the value of a result that has an error: %s\n", std::get_if<1>(&held_)->message().c_str());
    std::abort();
  }
  std::variant<T, Error> held_;
};

/// A success that has nothing to say.
struct Done {};
/// What a call answers that has no value: `if (auto done = session.append(..); !done) ..`.
using Status = Result<Done>;

namespace detail {

template <typename H, void (*Free)(H*)>
struct Deleter {
  void operator()(H* handle) const { Free(handle); }
};
template <typename H, void (*Free)(H*)>
using Owned = std::unique_ptr<H, Deleter<H, Free>>;

/// Calls f(&error) and turns what it answers into a status.
template <typename F>
Status done(F f) {
  lean_error* error = nullptr;
  const lean_status status = f(&error);
  if (status != LEAN_OK) return Error::take(status, error);
  return Done{};
}

/// Calls f(&handle, &error) and wraps the handle.
template <typename W, typename H, typename F>
Result<W> made(F f) {
  H* handle = nullptr;
  lean_error* error = nullptr;
  const lean_status status = f(&handle, &error);
  if (status != LEAN_OK) return Error::take(status, error);
  return W(handle);
}

/// Calls f(&value, &error) and answers the value.
template <typename T, typename F>
Result<T> got(F f) {
  T value{};
  lean_error* error = nullptr;
  const lean_status status = f(&value, &error);
  if (status != LEAN_OK) return Error::take(status, error);
  return value;
}

/// Calls f(&text, &length, &error) and copies the text.
template <typename F>
Result<std::string> text(F f) {
  const char* data = nullptr;
  std::size_t length = 0;
  lean_error* error = nullptr;
  const lean_status status = f(&data, &length, &error);
  if (status != LEAN_OK) return Error::take(status, error);
  return std::string(data, length);
}

using OwnedBytes = Owned<lean_bytes, lean_bytes_free>;

/// Calls f(&bytes, &error) and copies them into a container of bytes or characters.
template <typename C, typename F>
Result<C> bytes(F f) {
  lean_bytes* raw = nullptr;
  lean_error* error = nullptr;
  lean_status status = f(&raw, &error);
  if (status != LEAN_OK) return Error::take(status, error);
  const OwnedBytes owned(raw);
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
  status = lean_bytes_data(raw, &data, &length, &error);
  if (status != LEAN_OK) return Error::take(status, error);
  return C(data, data + length);
}

/// The ids that f(ids, capacity, &count, &error) writes.
template <typename F>
Result<std::vector<std::uint32_t>> ids(F f) {
  std::size_t count = 0;
  lean_error* error = nullptr;
  lean_status status = f(static_cast<std::uint32_t*>(nullptr), std::size_t{0}, &count, &error);
  if (status != LEAN_OK) return Error::take(status, error);
  std::vector<std::uint32_t> all(count);
  status = f(all.data(), all.size(), &count, &error);
  if (status != LEAN_OK) return Error::take(status, error);
  return all;
}

using Progress = std::function<bool(std::uint64_t, std::uint64_t)>;
inline bool progress(void* user, std::uint64_t done, std::uint64_t total) noexcept {
  return (*static_cast<Progress*>(user))(done, total);
}

}  // namespace detail

/// The library's version, such as "0.1.0".
inline std::string_view version() { return lean_version(); }

// ---- small handles --------------------------------------------------------------------------------------------

/// A flag that cancels the calls it is given to. Once triggered it stays so.
class Cancel {
 public:
  static Result<Cancel> make() { return detail::made<Cancel, lean_cancel>(lean_cancel_new); }
  /// From any thread.
  void trigger() const { lean_cancel_trigger(handle_.get()); }
  bool triggered() const { return lean_cancel_is_triggered(handle_.get()); }
  const lean_cancel* get() const { return handle_.get(); }
  explicit Cancel(lean_cancel* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_cancel, lean_cancel_free> handle_;
};

/// A point to continue from, exactly; outlives what it was taken from.
class Checkpoint {
 public:
  static Result<Checkpoint> from_bytes(const std::uint8_t* data, std::size_t length) {
    return detail::made<Checkpoint, lean_checkpoint>(
        [&](auto c, auto e) { return lean_checkpoint_from_bytes(data, length, c, e); });
  }
  static Result<Checkpoint> from_bytes(const std::vector<std::uint8_t>& bytes) { return from_bytes(bytes.data(), bytes.size()); }
  /// A copy that was made with a parent.
  static Result<Checkpoint> from_delta(const std::vector<std::uint8_t>& bytes, const Checkpoint& parent) {
    return detail::made<Checkpoint, lean_checkpoint>(
        [&](auto c, auto e) { return lean_checkpoint_from_delta(bytes.data(), bytes.size(), parent.get(), c, e); });
  }
  static Result<Checkpoint> load(std::string_view path) {
    return detail::made<Checkpoint, lean_checkpoint>(
        [&](auto c, auto e) { return lean_checkpoint_load(path.data(), path.size(), c, e); });
  }

  /// A self-contained copy; compressed, or with a parent only what differs from that.
  Result<std::vector<std::uint8_t>> to_bytes(bool compress = false, const Checkpoint* parent = nullptr) const {
    return detail::bytes<std::vector<std::uint8_t>>([&](auto b, auto e) {
      return lean_checkpoint_to_bytes_with(get(), compress ? 1 : 0, parent == nullptr ? nullptr : parent->get(), b, e);
    });
  }
  /// Writes a file, which is always either the old one or the whole new one; answers its size.
  Result<std::uint64_t> save(std::string_view path) const {
    return detail::got<std::uint64_t>([&](auto n, auto e) { return lean_checkpoint_save(get(), path.data(), path.size(), n, e); });
  }
  /// What it is, as a JSON object.
  Result<std::string> info() const {
    return detail::bytes<std::string>([&](auto b, auto e) { return lean_checkpoint_info(get(), b, e); });
  }
  Result<std::vector<std::uint32_t>> tokens() const {
    const std::uint32_t* ids = nullptr;
    std::size_t count = 0;
    auto done = detail::done([&](auto e) { return lean_checkpoint_tokens(get(), &ids, &count, e); });
    if (!done) return done.error();
    return std::vector<std::uint32_t>(ids, ids + count);
  }
  const lean_checkpoint* get() const { return handle_.get(); }
  explicit Checkpoint(lean_checkpoint* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_checkpoint, lean_checkpoint_free> handle_;
};

namespace detail {

/// A JSON string.
inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", byte);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out += '"';
}

}  // namespace detail

/// How a reply may call its tools.
struct ToolOptions {
  /// Only calls.
  bool required = false;
  /// One call of the tool of this name.
  std::string tool;
  /// Several calls in one reply.
  bool several = true;
  /// "hermes", "llama", "gemma" or "pythonic"; otherwise the model's own.
  std::string syntax;
};

/// What is generated and nothing else. `type_of<T>()` makes one of a C++ type.
class Type {
 public:
  /// A type expression: JSON whose leaves are strings such as "string < 64", or such a string.
  static Result<Type> expr(std::string_view json) {
    return detail::made<Type, lean_type>([&](auto t, auto e) { return lean_type_expr(json.data(), json.size(), t, e); });
  }
  /// A JSON Schema.
  static Result<Type> schema(std::string_view json) {
    return detail::made<Type, lean_type>([&](auto t, auto e) { return lean_type_schema(json.data(), json.size(), t, e); });
  }
  /// Plain text, of at most so many characters.
  static Result<Type> text(std::uint64_t max_chars = LEAN_NONE) {
    return detail::made<Type, lean_type>([&](auto t, auto e) { return lean_type_text(max_chars, t, e); });
  }
  /// Plain text that matches a regular expression as a whole.
  static Result<Type> regex(std::string_view pattern) {
    return detail::made<Type, lean_type>([&](auto t, auto e) { return lean_type_regex(pattern.data(), pattern.size(), t, e); });
  }
  /// Plain text: one of these strings.
  static Result<Type> choice(const std::vector<std::string>& choices) {
    std::vector<const char*> texts;
    std::vector<std::size_t> lengths;
    for (const auto& c : choices) texts.push_back(c.data()), lengths.push_back(c.size());
    return detail::made<Type, lean_type>(
        [&](auto t, auto e) { return lean_type_choice(texts.data(), lengths.data(), texts.size(), t, e); });
  }

  /// A type as it travels between programs: the JSON of lean_type_json.
  static Result<Type> json(std::string_view json) {
    return detail::made<Type, lean_type>([&](auto t, auto e) { return lean_type_json(json.data(), json.size(), t, e); });
  }
  /// A reply: text, or calls of these tools (a JSON array) in the model's own syntax. `reply_of` reads it.
  static Result<Type> tools(std::string_view tools, const ToolOptions& options = {}) {
    std::string choice = options.required ? R"("required")" : R"("auto")";
    if (!options.tool.empty()) choice = "{\"tool\":" + detail::quoted(options.tool) + "}";
    std::string all = "{\"tools\":{\"tools\":" + std::string(tools) + ",\"choice\":" + choice;
    all += options.several ? "" : ",\"parallel\":false";
    if (!options.syntax.empty()) all += ",\"syntax\":" + detail::quoted(options.syntax);
    return json(all + "}}");
  }

  /// The JSON Schema that values satisfy.
  Result<std::string> schema() const {
    return detail::text([&](auto t, auto n, auto e) { return lean_type_get_schema(get(), t, n, e); });
  }
  /// What was taken as an annotation, as a JSON array of strings.
  Result<std::string> warnings() const {
    return detail::text([&](auto t, auto n, auto e) { return lean_type_get_warnings(get(), t, n, e); });
  }
  const lean_type* get() const { return handle_.get(); }
  explicit Type(lean_type* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_type, lean_type_free> handle_;
};

/// A list of blocks to run, built in one expression: `Context().message("user", "Hi")`. What is wrong with a block is the
/// error of the call that the context is given to.
class Context {
 public:
  Context() {
    lean_context* handle = nullptr;
    note([&](auto e) { return lean_context_new(&handle, e); });
    handle_.reset(handle);
  }
  /// Plain text, in which control tokens are never parsed.
  Context& text(std::string_view text) & {
    return note([&](auto e) { return lean_context_add_text(handle_.get(), text.data(), text.size(), e); });
  }
  /// Trusted text, in which they are.
  Context& raw(std::string_view text) & {
    return note([&](auto e) { return lean_context_add_raw(handle_.get(), text.data(), text.size(), e); });
  }
  Context& tokens(const std::vector<std::uint32_t>& ids) & {
    return note([&](auto e) { return lean_context_add_tokens(handle_.get(), ids.data(), ids.size(), e); });
  }
  /// A JSON value.
  Context& json(std::string_view json) & {
    return note([&](auto e) { return lean_context_add_json(handle_.get(), json.data(), json.size(), e); });
  }
  /// A message of the conversation that the context begins with.
  Context& message(std::string_view role, std::string_view content) & {
    return note([&](auto e) {
      return lean_context_add_message(handle_.get(), role.data(), role.size(), content.data(), content.size(), e);
    });
  }
  /// A whole conversation, with tools if there are any: the JSON of lean_context_add_chat.
  Context& chat(std::string_view json) & {
    return note([&](auto e) { return lean_context_add_chat(handle_.get(), json.data(), json.size(), e); });
  }
  /// Makes it begin at a checkpoint, for calls on a model.
  Context& from(const Checkpoint& checkpoint) & {
    return note([&](auto e) { return lean_context_set_checkpoint(handle_.get(), checkpoint.get(), e); });
  }
  Context&& text(std::string_view t) && { return std::move(text(t)); }
  Context&& raw(std::string_view t) && { return std::move(raw(t)); }
  Context&& tokens(const std::vector<std::uint32_t>& ids) && { return std::move(tokens(ids)); }
  Context&& json(std::string_view j) && { return std::move(json(j)); }
  Context&& message(std::string_view role, std::string_view content) && { return std::move(message(role, content)); }
  Context&& chat(std::string_view json) && { return std::move(chat(json)); }
  Context&& from(const Checkpoint& checkpoint) && { return std::move(from(checkpoint)); }

  /// The first error of a block, if there was one.
  const std::optional<Error>& error() const { return error_; }
  const lean_context* get() const { return handle_.get(); }

 private:
  template <typename F>
  Context& note(F f) {
    if (error_) return *this;
    auto done = detail::done(f);
    if (!done) error_ = done.error();
    return *this;
  }
  detail::Owned<lean_context, lean_context_free> handle_;
  std::optional<Error> error_;
};

// ---- options --------------------------------------------------------------------------------------------------

/// How to load a model; what is not said is the library's default.
struct LoadOptions {
  /// LEAN_BACKEND_*.
  std::optional<std::int32_t> backend;
  /// CPU threads.
  std::optional<std::uint32_t> threads;
  /// LEAN_LOAD_*.
  std::uint32_t flags = 0;
  /// LEAN_KV_*.
  std::optional<std::uint32_t> kv;
  /// LEAN_PRECISION_*.
  std::optional<std::uint32_t> precision;
  /// Bytes of state kept of earlier contexts.
  std::optional<std::uint64_t> prefix_cache_bytes;
  /// Told bytes done and bytes in total; answering false cancels.
  std::function<bool(std::uint64_t, std::uint64_t)> progress;
  const Cancel* cancel = nullptr;
};

/// How to run a context.
struct PrefillOptions {
  /// Told tokens done and tokens in total; answering false cancels.
  std::function<bool(std::uint64_t, std::uint64_t)> progress;
  const Cancel* cancel = nullptr;
};

/// How to generate; what is not said is the library's default.
struct GenerateOptions {
  std::optional<std::uint64_t> max_tokens;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::uint32_t> repetition_window, top_k;
  std::optional<std::uint64_t> seed;
  /// Text ends before any of these (text types only).
  std::vector<std::string> stop;
  const Cancel* cancel = nullptr;
  std::optional<std::chrono::milliseconds> timeout;
  /// LEAN_EVENTS_* that a stream reports.
  std::optional<std::uint32_t> events;
  /// Report so many of the likeliest tokens before each that is chosen (LEAN_EVENT_CANDIDATES, at most 64).
  std::uint32_t candidates = 0;
  /// Report the value so far (streams of JSON types).
  bool partials = false;
  /// Say how sure the model was: Output::confidence.
  bool confidence = false;
  /// After a failure keep what was generated.
  bool keep_partial = false;
};

namespace detail {

/// The options as the library reads them, with what they point at. The options themselves must outlive it.
class RawGenerate {
 public:
  explicit RawGenerate(const GenerateOptions& o) {
    lean_generate_options_init(&raw_, sizeof raw_);
    if (o.max_tokens) raw_.max_tokens = *o.max_tokens;
    if (o.temperature) raw_.temperature = *o.temperature;
    if (o.top_p) raw_.top_p = *o.top_p;
    if (o.min_p) raw_.min_p = *o.min_p;
    if (o.repetition_penalty) raw_.repetition_penalty = *o.repetition_penalty;
    if (o.repetition_window) raw_.repetition_window = *o.repetition_window;
    if (o.top_k) raw_.top_k = *o.top_k;
    if (o.seed) raw_.seed = *o.seed;
    if (o.timeout) raw_.timeout_ms = o.timeout->count() < 0 ? 0 : static_cast<std::uint64_t>(o.timeout->count());
    if (o.events) raw_.events = *o.events;
    raw_.candidates = o.candidates;
    if (o.cancel != nullptr) raw_.cancel = o.cancel->get();
    raw_.flags = (o.partials ? LEAN_GENERATE_PARTIALS : 0) | (o.keep_partial ? LEAN_GENERATE_KEEP_PARTIAL : 0) |
                 (o.confidence ? LEAN_GENERATE_CONFIDENCE : 0);
    for (const auto& s : o.stop) texts_.push_back(s.data()), lengths_.push_back(s.size());
    if (!texts_.empty()) {
      raw_.stop = texts_.data();
      raw_.stop_lengths = lengths_.data();
      raw_.stop_count = texts_.size();
    }
  }
  RawGenerate(const RawGenerate&) = delete;
  RawGenerate& operator=(const RawGenerate&) = delete;
  const lean_generate_options* get() const { return &raw_; }

 private:
  lean_generate_options raw_;
  std::vector<const char*> texts_;
  std::vector<std::size_t> lengths_;
};

inline lean_prefill_options raw(PrefillOptions& o) {
  lean_prefill_options raw;
  lean_prefill_options_init(&raw, sizeof raw);
  if (o.progress) raw.progress = progress, raw.progress_user = &o.progress;
  if (o.cancel != nullptr) raw.cancel = o.cancel->get();
  return raw;
}

inline lean_session_options session_options(std::optional<std::uint64_t> context) {
  lean_session_options raw;
  lean_session_options_init(&raw, sizeof raw);
  if (context) raw.context = *context;
  return raw;
}

}  // namespace detail

// ---- values ---------------------------------------------------------------------------------------------------

/// How a generation ended.
enum class Finish { complete = LEAN_FINISH_COMPLETE, stop = LEAN_FINISH_STOP, length = LEAN_FINISH_LENGTH };

/// A finished value with its text and counts. A pointer below is a JSON pointer, such as "/tags/0"; "" is the whole.
class Output {
 public:
  /// As it was generated: compact JSON, or plain text.
  Result<std::string> text() const {
    return detail::text([&](auto t, auto n, auto e) { return lean_output_text(get(), t, n, e); });
  }
  Result<std::string> json() const {
    return detail::text([&](auto t, auto n, auto e) { return lean_output_json(get(), t, n, e); });
  }
  /// How sure the model was, if it was asked for (otherwise "null"): the JSON of lean_output_confidence.
  Result<std::string> confidence() const {
    return detail::text([&](auto t, auto n, auto e) { return lean_output_confidence(get(), t, n, e); });
  }
  Result<Finish> finish() const {
    auto finish = detail::got<std::int32_t>([&](auto f, auto e) { return lean_output_finish(get(), f, e); });
    if (!finish) return finish.error();
    return static_cast<Finish>(*finish);
  }
  Result<lean_usage> usage() const {
    lean_usage usage;
    lean_usage_init(&usage, sizeof usage);
    auto done = detail::done([&](auto e) { return lean_output_usage(get(), &usage, e); });
    if (!done) return done.error();
    return usage;
  }
  Result<std::vector<std::uint32_t>> tokens() const {
    const std::uint32_t* ids = nullptr;
    std::size_t count = 0;
    auto done = detail::done([&](auto e) { return lean_output_tokens(get(), &ids, &count, e); });
    if (!done) return done.error();
    return std::vector<std::uint32_t>(ids, ids + count);
  }
  /// LEAN_KIND_*; LEAN_INVALID_ARGUMENT if there is nothing at the pointer.
  Result<std::int32_t> kind(std::string_view at) const {
    return detail::got<std::int32_t>([&](auto k, auto e) { return lean_output_kind(get(), at.data(), at.size(), k, e); });
  }
  Result<std::string> string(std::string_view at) const {
    return detail::text([&](auto t, auto n, auto e) { return lean_output_string(get(), at.data(), at.size(), t, n, e); });
  }
  Result<double> number(std::string_view at) const {
    return detail::got<double>([&](auto n, auto e) { return lean_output_number(get(), at.data(), at.size(), n, e); });
  }
  Result<std::int64_t> integer(std::string_view at) const {
    return detail::got<std::int64_t>([&](auto n, auto e) { return lean_output_integer(get(), at.data(), at.size(), n, e); });
  }
  Result<bool> boolean(std::string_view at) const {
    return detail::got<bool>([&](auto b, auto e) { return lean_output_boolean(get(), at.data(), at.size(), b, e); });
  }
  /// The number of items of an array, or of properties of an object.
  Result<std::size_t> count(std::string_view at) const {
    return detail::got<std::size_t>([&](auto n, auto e) { return lean_output_count(get(), at.data(), at.size(), n, e); });
  }
  const lean_output* get() const { return handle_.get(); }
  explicit Output(lean_output* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_output, lean_output_free> handle_;
};

// ---- streams, sessions, models --------------------------------------------------------------------------------

/// What happened. Kinds (LEAN_EVENT_*) that a program does not know are to be skipped.
struct Event {
  std::int32_t kind = 0;
  std::uint64_t done = 0, total = 0;
  /// Whole characters, possibly none.
  std::string text;
  std::uint32_t token = 0;
  bool forced = false;
  /// JSON pointer of the value that is being written, of LEAN_EVENT_PARTIAL.
  std::string path;
};

/// A generation under way. It has its session until it is finished or destroyed, which cancels it.
class Stream {
 public:
  /// Works until there is an event; none once no event follows, or (where a timeout was given) when the time is up:
  /// `pending` then says so.
  Result<std::optional<Event>> next(std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
    lean_event raw;
    lean_event_init(&raw, sizeof raw);
    lean_error* error = nullptr;
    const auto wait = timeout ? static_cast<std::uint32_t>(timeout->count()) : LEAN_WAIT_FOREVER;
    const lean_status status = lean_stream_next(handle_.get(), wait, &raw, &error);
    pending_ = status == LEAN_PENDING;
    if (status == LEAN_PENDING || status == LEAN_END) return std::optional<Event>();
    if (status != LEAN_OK) return Error::take(status, error);
    Event event;
    event.kind = raw.kind;
    event.done = raw.done;
    event.total = raw.total;
    if (raw.text != nullptr) event.text.assign(raw.text, raw.text_length);
    event.token = raw.token;
    event.forced = raw.forced != 0;
    if (raw.path != nullptr) event.path.assign(raw.path, raw.path_length);
    return std::optional<Event>(std::move(event));
  }
  /// Whether the last call of next ended because of its timeout.
  bool pending() const { return pending_; }
  /// The text so far.
  Result<std::string> partial() {
    return detail::text([&](auto t, auto n, auto e) { return lean_stream_partial(handle_.get(), t, n, e); });
  }
  /// A point inside the value, which Session::resume finishes.
  Result<Checkpoint> checkpoint() {
    return detail::made<Checkpoint, lean_checkpoint>([&](auto c, auto e) { return lean_stream_checkpoint(handle_.get(), c, e); });
  }
  /// From any thread: ends what the stream is doing.
  Status cancel() const {
    return detail::done([&](auto e) { return lean_stream_cancel(handle_.get(), e); });
  }
  /// Works to the end, makes the value part of the session, and gives the session back.
  Result<Output> finish() {
    return detail::made<Output, lean_output>([&](auto o, auto e) { return lean_stream_finish(handle_.get(), o, e); });
  }
  lean_stream* get() const { return handle_.get(); }
  explicit Stream(lean_stream* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_stream, lean_stream_free> handle_;
  bool pending_ = false;
};

/// The bridge's protocol inside this process (bridge/PROTOCOL.md): for programs that speak it already, or pass it on. Bytes go in
/// and come out as from a lean-bridge that was spawned. All functions are const: threads may send, receive and close at once.
class Port {
 public:
  /// What send and receive answer when they neither did it nor failed.
  enum class Wait { done, pending, ended };

  static Result<Port> open() { return detail::made<Port, lean_port>(lean_port_open); }
  /// Sends bytes of the host's stream, all or none of them: `pending` if too many were waiting for so long (or for ever),
  /// `ended` if the port is over.
  Result<Wait> send(const void* data, std::size_t length, std::optional<std::chrono::milliseconds> timeout = std::nullopt) const {
    lean_error* error = nullptr;
    return waited(lean_port_send(handle_.get(), static_cast<const std::uint8_t*>(data), length, wait(timeout), &error), error);
  }
  /// Appends the next bytes of the bridge's stream, whole frames: `pending` if none came in time, `ended` once none will.
  Result<Wait> receive(std::vector<std::uint8_t>& to, std::optional<std::chrono::milliseconds> timeout = std::nullopt) const {
    lean_error* error = nullptr;
    lean_bytes* raw = nullptr;
    const lean_status status = lean_port_recv(handle_.get(), wait(timeout), &raw, &error);
    if (status != LEAN_OK) return waited(status, error);
    const detail::OwnedBytes owned(raw);
    const std::uint8_t* bytes = nullptr;
    std::size_t length = 0;
    const lean_status read = lean_bytes_data(raw, &bytes, &length, &error);
    if (read != LEAN_OK) return Error::take(read, error);
    to.insert(to.end(), bytes, bytes + length);
    return Wait::done;
  }
  /// How far it is: LEAN_PORT_*.
  Result<std::int32_t> state() const {
    return detail::got<std::int32_t>([&](auto s, auto e) { return lean_port_state(handle_.get(), s, e); });
  }
  /// Ends it as the end of stdin ends a process; whoever waits in send or receive is woken. Destroying it does so too, but
  /// then no other call may be under way.
  Status close() const {
    return detail::done([&](auto e) { return lean_port_close(handle_.get(), e); });
  }
  const lean_port* get() const { return handle_.get(); }
  explicit Port(lean_port* handle) : handle_(handle) {}

 private:
  static std::uint32_t wait(std::optional<std::chrono::milliseconds> timeout) {
    return timeout ? static_cast<std::uint32_t>(timeout->count()) : LEAN_WAIT_FOREVER;
  }
  static Result<Wait> waited(lean_status status, lean_error* error) {
    if (status == LEAN_OK) return Wait::done;
    if (status == LEAN_PENDING) return Wait::pending;
    if (status == LEAN_END) return Wait::ended;
    return Error::take(status, error);
  }
  detail::Owned<lean_port, lean_port_free> handle_;
};

/// A loaded LoRA adapter of one model.
class Adapter {
 public:
  /// What it says about itself, as a JSON object.
  Result<std::string> info() const {
    return detail::text([&](auto t, auto n, auto e) { return lean_adapter_info(get(), t, n, e); });
  }
  const lean_adapter* get() const { return handle_.get(); }
  explicit Adapter(lean_adapter* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_adapter, lean_adapter_free> handle_;
};

class Session;

/// One of several values that continue one context.
struct Branch {
  const Type* type = nullptr;
  const Context* context = nullptr;
  GenerateOptions options;
};

/// The streams of several values, and the session of each.
struct Many {
  std::vector<Stream> streams;
  std::vector<Session> sessions;
};

/// One sequence, used by one thread at a time. A call that fails or is cancelled leaves it as it was before.
class Session {
 public:
  Status append(const Context& context, PrefillOptions options = {}) {
    if (context.error()) return *context.error();
    const auto raw = detail::raw(options);
    return detail::done([&](auto e) { return lean_session_append(get(), context.get(), &raw, e); });
  }
  /// Makes its content exactly a context; answers how many tokens did not have to run again.
  Result<std::size_t> set_context(const Context& context, PrefillOptions options = {}) {
    if (context.error()) return *context.error();
    const auto raw = detail::raw(options);
    return detail::got<std::size_t>([&](auto n, auto e) { return lean_session_set_context(get(), context.get(), &raw, n, e); });
  }
  /// Keeps the first tokens.
  Status truncate(std::size_t length) {
    return detail::done([&](auto e) { return lean_session_truncate(get(), length, e); });
  }
  /// Removes the tokens from begin up to, but not including, end; answers how many ran again.
  Result<std::size_t> drop_range(std::size_t begin, std::size_t end, PrefillOptions options = {}) {
    const auto raw = detail::raw(options);
    return detail::got<std::size_t>([&](auto n, auto e) { return lean_session_drop_range(get(), begin, end, &raw, n, e); });
  }
  /// Runs with these adapters, each with its scale, and no others from now on.
  Status set_adapters(const std::vector<std::pair<const Adapter*, float>>& adapters, PrefillOptions options = {}) {
    std::vector<const lean_adapter*> handles;
    std::vector<float> scales;
    for (const auto& a : adapters) handles.push_back(a.first == nullptr ? nullptr : a.first->get()), scales.push_back(a.second);
    const auto raw = detail::raw(options);
    return detail::done([&](auto e) {
      return lean_session_set_adapters(get(), handles.data(), scales.data(), handles.size(), &raw, e);
    });
  }
  /// Starts a value after its content.
  Result<Stream> generate(const Type& type, const GenerateOptions& options = {}) {
    const detail::RawGenerate raw(options);
    return detail::made<Stream, lean_stream>(
        [&](auto s, auto e) { return lean_session_generate(get(), type.get(), raw.get(), s, e); });
  }
  /// Continues the value that its checkpoint was taken in.
  Result<Stream> resume() {
    return detail::made<Stream, lean_stream>([&](auto s, auto e) { return lean_session_resume(get(), nullptr, s, e); });
  }
  /// Several values side by side; the session itself stays as it is.
  inline Result<Many> generate_many(const std::vector<Branch>& branches);
  Result<Session> fork() {
    return detail::made<Session, lean_session>([&](auto s, auto e) { return lean_session_fork(get(), s, e); });
  }
  Result<Checkpoint> checkpoint() {
    return detail::made<Checkpoint, lean_checkpoint>([&](auto c, auto e) { return lean_session_checkpoint(get(), c, e); });
  }
  Result<std::vector<std::uint32_t>> tokens() {
    return detail::ids([&](auto ids, auto n, auto count, auto e) { return lean_session_tokens(get(), ids, n, count, e); });
  }
  Result<std::size_t> capacity() {
    return detail::got<std::size_t>([&](auto n, auto e) { return lean_session_capacity(get(), n, e); });
  }
  /// LEAN_RESTORED_*.
  Result<std::int32_t> restored() {
    return detail::got<std::int32_t>([&](auto h, auto e) { return lean_session_restored(get(), h, e); });
  }
  Result<bool> can_resume() {
    return detail::got<bool>([&](auto b, auto e) { return lean_session_can_resume(get(), b, e); });
  }
  /// The token-level door: adds ids, runs all that is pending, and answers the last token's logits.
  Result<std::vector<float>> forward(const std::vector<std::uint32_t>& ids, std::size_t vocab_size) {
    std::vector<float> logits(vocab_size);
    std::size_t written = 0;
    auto done = detail::done([&](auto e) {
      return lean_session_forward(get(), ids.data(), ids.size(), logits.data(), logits.size(), &written, e);
    });
    if (!done) return done.error();
    logits.resize(written < vocab_size ? written : vocab_size);
    return logits;
  }
  lean_session* get() const { return handle_.get(); }
  explicit Session(lean_session* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_session, lean_session_free> handle_;
};

/// A loaded model: immutable, usable from many threads at once.
class Model {
 public:
  static Result<Model> load(std::string_view path, LoadOptions options = {}) {
    lean_load_options raw;
    lean_load_options_init(&raw, sizeof raw);
    if (options.backend) raw.backend = *options.backend;
    if (options.threads) raw.threads = *options.threads;
    raw.flags = options.flags;
    if (options.kv) raw.kv = *options.kv;
    if (options.precision) raw.precision = *options.precision;
    if (options.prefix_cache_bytes) raw.prefix_cache_bytes = *options.prefix_cache_bytes;
    if (options.progress) raw.progress = detail::progress, raw.progress_user = &options.progress;
    if (options.cancel != nullptr) raw.cancel = options.cancel->get();
    return detail::made<Model, lean_model>([&](auto m, auto e) { return lean_model_load(path.data(), path.size(), &raw, m, e); });
  }
  /// What a file asks for, without loading it, as a JSON object.
  static Result<std::string> plan(std::string_view path) {
    return detail::bytes<std::string>([&](auto b, auto e) { return lean_model_plan(path.data(), path.size(), b, e); });
  }
  /// What it says about itself, as a JSON object.
  Result<std::string> info() const {
    return detail::text([&](auto t, auto n, auto e) { return lean_model_info(get(), t, n, e); });
  }
  Result<lean_stats> stats() const {
    lean_stats stats;
    lean_stats_init(&stats, sizeof stats);
    auto done = detail::done([&](auto e) { return lean_model_stats(get(), &stats, e); });
    if (!done) return done.error();
    return stats;
  }
  /// Bytes of state kept of earlier contexts; 0 is off.
  Status set_prefix_cache(std::uint64_t bytes) const {
    return detail::done([&](auto e) { return lean_model_set_prefix_cache(get(), bytes, e); });
  }
  /// Ids of a context as they would start a session: their number is its length in tokens.
  Result<std::vector<std::uint32_t>> tokenize(const Context& context) const {
    if (context.error()) return *context.error();
    return detail::ids(
        [&](auto ids, auto n, auto count, auto e) { return lean_model_tokenize(get(), context.get(), ids, n, count, e); });
  }
  Result<std::string> detokenize(const std::vector<std::uint32_t>& ids, bool keep_control = false) const {
    return detail::bytes<std::string>(
        [&](auto b, auto e) { return lean_model_detokenize(get(), ids.data(), ids.size(), keep_control, b, e); });
  }
  /// A conversation as text, by the model's chat template: the JSON of lean_context_add_chat.
  Result<std::string> render_chat(std::string_view json) const {
    return detail::bytes<std::string>([&](auto b, auto e) { return lean_model_render_chat(get(), json.data(), json.size(), b, e); });
  }
  Result<Session> session(std::optional<std::uint64_t> context = std::nullopt) const {
    const auto raw = detail::session_options(context);
    return detail::made<Session, lean_session>([&](auto s, auto e) { return lean_session_new(get(), &raw, s, e); });
  }
  /// A session that continues from a checkpoint, by a policy LEAN_RESTORE_*.
  Result<Session> restore(const Checkpoint& from, std::int32_t policy = LEAN_RESTORE_EXACT,
                          std::optional<std::uint64_t> context = std::nullopt) const {
    const auto raw = detail::session_options(context);
    return detail::made<Session, lean_session>(
        [&](auto s, auto e) { return lean_session_restore(get(), from.get(), policy, &raw, s, e); });
  }
  /// An ordered context in, a value out; nothing is kept.
  Result<Output> generate(const Context& context, const Type& type, const GenerateOptions& options = {}) const {
    if (context.error()) return *context.error();
    const detail::RawGenerate raw(options);
    return detail::made<Output, lean_output>(
        [&](auto o, auto e) { return lean_generate(get(), context.get(), type.get(), raw.get(), o, e); });
  }
  /// Several values that continue one checkpoint (null: an empty context) side by side.
  inline Result<Many> generate_many(const std::vector<Branch>& branches, const Checkpoint* from = nullptr) const;
  /// A .gguf file, or PEFT's folder.
  Result<Adapter> load_adapter(std::string_view path) const {
    return detail::made<Adapter, lean_adapter>([&](auto a, auto e) { return lean_adapter_load(get(), path.data(), path.size(), a, e); });
  }
  const lean_model* get() const { return handle_.get(); }
  explicit Model(lean_model* handle) : handle_(handle) {}

 private:
  detail::Owned<lean_model, lean_model_free> handle_;
};

namespace detail {

/// Starts branches by call(contexts, types, options, streams, sessions, &error).
template <typename F>
Result<Many> many(const std::vector<Branch>& branches, F call) {
  const std::size_t count = branches.size();
  std::vector<const lean_context*> contexts;
  std::vector<const lean_type*> types;
  std::vector<std::unique_ptr<RawGenerate>> owned;
  std::vector<const lean_generate_options*> options;
  for (const auto& b : branches) {
    if (b.context != nullptr && b.context->error()) return *b.context->error();
    contexts.push_back(b.context == nullptr ? nullptr : b.context->get());
    types.push_back(b.type == nullptr ? nullptr : b.type->get());
    owned.push_back(std::make_unique<RawGenerate>(b.options));
    options.push_back(owned.back()->get());
  }
  std::vector<lean_stream*> streams(count);
  std::vector<lean_session*> sessions(count);
  auto started = done([&](auto e) {
    return call(count, contexts.data(), types.data(), options.data(), streams.data(), sessions.data(), e);
  });
  if (!started) return started.error();
  Many all;
  for (auto* s : streams) all.streams.emplace_back(s);
  for (auto* s : sessions) all.sessions.emplace_back(s);
  return all;
}

}  // namespace detail

inline Result<Many> Model::generate_many(const std::vector<Branch>& branches, const Checkpoint* from) const {
  return detail::many(branches, [&](auto... rest) {
    return lean_generate_many(get(), from == nullptr ? nullptr : from->get(), rest...);
  });
}

inline Result<Many> Session::generate_many(const std::vector<Branch>& branches) {
  return detail::many(branches, [&](auto... rest) { return lean_session_generate_many(get(), rest...); });
}

// ---- schemas --------------------------------------------------------------------------------------------------

namespace detail {

/// A number as JSON, the shortest that reads back as the same.
inline std::string number(double n) {
  char buffer[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, n);
    if (std::strtod(buffer, nullptr) == n) break;
  }
  // A locale may write another decimal point.
  for (char* c = buffer; *c != 0; ++c) {
    if (*c == ',') *c = '.';
  }
  return buffer;
}
template <typename N>
std::string json_number(N n) {
  if constexpr (std::is_integral_v<N>) {
    return std::to_string(n);
  } else {
    return number(static_cast<double>(n));
  }
}

}  // namespace detail

/// A JSON Schema in the making: `Schema::object().field("id", Schema::integer().min(1))`. Properties are generated in the
/// order in which they were added.
class Schema {
 public:
  static Schema string() { return Schema("string"); }
  static Schema integer() { return Schema("integer"); }
  static Schema number() { return Schema("number"); }
  static Schema boolean() { return Schema("boolean"); }
  static Schema null() { return Schema("null"); }
  /// Any JSON value.
  static Schema any() { return Schema(""); }
  static Schema array(const Schema& items) { return Schema("array").with("items", items.json()); }
  /// An object of the fields that are added, and no others.
  static Schema object() { return Schema("object"); }
  /// An object of any keys whose values are of one type.
  static Schema map(const Schema& values) { return Schema("object").with("additionalProperties", values.json()); }
  /// One of these strings.
  static Schema one_of(const std::vector<std::string>& words) {
    std::string all;
    for (const auto& w : words) all += (all.empty() ? "" : ",") + detail::quoted(w);
    return Schema("string").with("enum", "[" + all + "]");
  }
  /// A value of any of these.
  static Schema any_of(const std::vector<Schema>& schemas) {
    std::string all;
    for (const auto& s : schemas) all += (all.empty() ? "" : ",") + s.json();
    return Schema("").with("anyOf", "[" + all + "]");
  }
  /// A schema that is already JSON.
  static Schema raw(std::string json) {
    Schema s("");
    s.raw_ = std::move(json);
    return s;
  }

  /// The least number, or the fewest characters, items or properties.
  template <typename N>
  Schema min(N n) const { return with(sized("minimum", "minLength", "minItems", "minProperties"), detail::json_number(n)); }
  /// The largest number, or the most characters, items or properties.
  template <typename N>
  Schema max(N n) const { return with(sized("maximum", "maxLength", "maxItems", "maxProperties"), detail::json_number(n)); }
  template <typename N>
  Schema greater(N n) const { return with("exclusiveMinimum", detail::json_number(n)); }
  template <typename N>
  Schema less(N n) const { return with("exclusiveMaximum", detail::json_number(n)); }
  template <typename N>
  Schema step(N n) const { return with("multipleOf", detail::json_number(n)); }
  Schema pattern(std::string_view regex) const { return with("pattern", detail::quoted(regex)); }
  Schema format(std::string_view name) const { return with("format", detail::quoted(name)); }
  Schema field(std::string_view name, const Schema& of) const {
    Schema s = optional(name, of);
    s.required_ += (s.required_.empty() ? "" : ",") + detail::quoted(name);
    return s;
  }
  Schema optional(std::string_view name, const Schema& of) const {
    Schema s = *this;
    s.properties_ += (s.properties_.empty() ? "" : ",") + detail::quoted(name) + ":" + of.json();
    s.closed_ = true;
    return s;
  }
  /// Sets a keyword to a JSON value.
  Schema with(std::string_view keyword, std::string json) const {
    Schema s = *this;
    if (!raw_.empty()) return s.raw_ = "{\"allOf\":[" + raw_ + "]," + detail::quoted(keyword) + ":" + json + "}", s;
    for (auto& k : s.keywords_) {
      if (k.first == keyword) return k.second = std::move(json), s;
    }
    s.keywords_.emplace_back(std::string(keyword), std::move(json));
    return s;
  }

  std::string json() const {
    if (!raw_.empty()) return raw_;
    std::string out;
    const auto add = [&](std::string_view name, const std::string& json) {
      out += (out.empty() ? "{" : ",") + detail::quoted(name) + ":" + json;
    };
    if (!kind_.empty()) add("type", detail::quoted(kind_));
    for (const auto& k : keywords_) add(k.first, k.second);
    if (closed_) {
      add("properties", "{" + properties_ + "}");
      add("required", "[" + required_ + "]");
      add("additionalProperties", "false");
    }
    return out.empty() ? "{}" : out + "}";
  }
  Result<Type> type() const { return Type::schema(json()); }

 private:
  explicit Schema(std::string kind) : kind_(std::move(kind)) {}
  const char* sized(const char* number, const char* string, const char* array, const char* object) const {
    return kind_ == "string" ? string : kind_ == "array" ? array : kind_ == "object" ? object : number;
  }
  std::string kind_;
  std::string raw_;
  std::vector<std::pair<std::string, std::string>> keywords_;
  std::string properties_, required_;
  bool closed_ = false;
};

// ---- C++ types as types ---------------------------------------------------------------------------------------

/// Names a C++ type in an argument: `auto describe(lean::Of<User>) { return lean::fields(..); }`, beside User, says what
/// its fields are.
template <typename T>
struct Of {
  using type = T;
};

/// What narrows a field: `lean::min(1).max(10)`, `lean::one_of({"bug", "feature"})`, `lean::items(lean::max(16))`.
class Limits {
 public:
  template <typename N>
  Limits min(N n) const { return and_then([n](const Schema& s) { return s.min(n); }); }
  template <typename N>
  Limits max(N n) const { return and_then([n](const Schema& s) { return s.max(n); }); }
  template <typename N>
  Limits greater(N n) const { return and_then([n](const Schema& s) { return s.greater(n); }); }
  template <typename N>
  Limits less(N n) const { return and_then([n](const Schema& s) { return s.less(n); }); }
  template <typename N>
  Limits step(N n) const { return and_then([n](const Schema& s) { return s.step(n); }); }
  Limits pattern(std::string regex) const { return and_then([regex](const Schema& s) { return s.pattern(regex); }); }
  Limits format(std::string name) const { return and_then([name](const Schema& s) { return s.format(name); }); }
  Limits one_of(std::vector<std::string> words) const {
    return and_then([words](const Schema&) { return Schema::one_of(words); });
  }
  /// Narrows the elements.
  Limits items(Limits each) const {
    Limits l = *this;
    l.items_ = std::make_shared<Limits>(std::move(each));
    return l;
  }
  Schema apply(Schema s) const {
    for (const auto& f : steps_) s = f(s);
    return s;
  }
  const Limits* each() const { return items_.get(); }

 private:
  Limits and_then(std::function<Schema(const Schema&)> f) const {
    Limits l = *this;
    l.steps_.push_back(std::move(f));
    return l;
  }
  std::vector<std::function<Schema(const Schema&)>> steps_;
  std::shared_ptr<Limits> items_;
};

template <typename N>
Limits min(N n) { return Limits().min(n); }
template <typename N>
Limits max(N n) { return Limits().max(n); }
template <typename N>
Limits greater(N n) { return Limits().greater(n); }
template <typename N>
Limits less(N n) { return Limits().less(n); }
inline Limits pattern(std::string regex) { return Limits().pattern(std::move(regex)); }
inline Limits format(std::string name) { return Limits().format(std::move(name)); }
inline Limits one_of(std::vector<std::string> words) { return Limits().one_of(std::move(words)); }
inline Limits items(Limits each) { return Limits().items(std::move(each)); }

/// A described field.
template <typename C, typename M>
struct Field {
  std::string name;
  M C::*member;
  Limits limits;
};
template <typename C, typename M>
Field<C, M> field(std::string name, M C::*member, Limits limits = {}) {
  return {std::move(name), member, std::move(limits)};
}
template <typename... F>
std::tuple<F...> fields(F... all) { return {std::move(all)...}; }

namespace detail {

template <typename T, typename = void>
struct is_described : std::false_type {};
template <typename T>
struct is_described<T, std::void_t<decltype(describe(Of<T>{}))>> : std::true_type {};
template <typename T>
struct is_vector : std::false_type {};
template <typename T>
struct is_vector<std::vector<T>> : std::true_type {};
template <typename T>
struct is_array : std::false_type {};
template <typename T, std::size_t N>
struct is_array<std::array<T, N>> : std::true_type {};
template <typename T>
struct is_optional : std::false_type {};
template <typename T>
struct is_optional<std::optional<T>> : std::true_type {};
template <typename T>
inline constexpr bool always_false = false;

/// One address for each type: how the walk below knows a struct again.
template <typename T>
const void* identity() {
  static const char here = 0;
  return &here;
}

/// One pass over a C++ type; structs become definitions, so that they may be recursive.
class Walk {
 public:
  template <typename T>
  Schema of(const Limits& limits = {}) {
    const Limits none;
    const Limits& each = limits.each() == nullptr ? none : *limits.each();
    if constexpr (std::is_same_v<T, bool>) {
      return limits.apply(Schema::boolean());
    } else if constexpr (std::is_integral_v<T>) {
      return limits.apply(whole<T>());
    } else if constexpr (std::is_same_v<T, float>) {
      // Larger ones would not fit; a bound has at most 20 digits.
      return limits.apply(Schema::number().min(-1000000000000000LL).max(1000000000000000LL));
    } else if constexpr (std::is_floating_point_v<T>) {
      return limits.apply(Schema::number());
    } else if constexpr (std::is_same_v<T, std::string>) {
      return limits.apply(Schema::string());
    } else if constexpr (is_vector<T>::value) {
      return limits.apply(Schema::array(of<typename T::value_type>(each)));
    } else if constexpr (is_array<T>::value) {
      constexpr std::size_t count = std::tuple_size_v<T>;
      return limits.apply(Schema::array(of<typename T::value_type>(each)).min(count).max(count));
    } else if constexpr (is_optional<T>::value) {
      return Schema::any_of({of<typename T::value_type>(limits), Schema::null()});
    } else if constexpr (is_described<T>::value) {
      return structure<T>();
    } else {
      static_assert(always_false<T>, "lean: this type is no type here; describe(lean::Of<T>) says what a struct's fields are");
    }
  }

  /// The whole schema.
  std::string finish(const Schema& root) const {
    if (names_.empty()) return root.json();
    std::string all;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      all += (all.empty() ? "\"" : ",\"") + std::to_string(i) + "\":" + definitions_[i];
    }
    // The root stands beside the definitions, so that references find them.
    std::string json = root.json();
    json.pop_back();
    return json + (json.size() > 1 ? "," : "") + "\"$defs\":{" + all + "}}";
  }

 private:
  template <typename T>
  static Schema whole() {
    if constexpr (std::is_unsigned_v<T>) {
      // What the library hands over is at most 64 bits with a sign.
      constexpr auto most = std::numeric_limits<std::int64_t>::max();
      constexpr bool large = sizeof(T) == 8;
      return Schema::integer().min(0).max(large ? most : static_cast<std::int64_t>(std::numeric_limits<T>::max()));
    } else if constexpr (sizeof(T) < 8) {
      return Schema::integer().min(+std::numeric_limits<T>::min()).max(+std::numeric_limits<T>::max());
    } else {
      return Schema::integer();
    }
  }

  template <typename T>
  Schema structure() {
    std::size_t at = 0;
    while (at < names_.size() && names_[at] != identity<T>()) ++at;
    if (at == names_.size()) {
      // Before the fields, since they may be of this type.
      names_.push_back(identity<T>());
      definitions_.emplace_back();
      Schema s = Schema::object();
      std::apply([&](const auto&... f) { ((s = add(s, f)), ...); }, describe(Of<T>{}));
      definitions_[at] = s.json();
    }
    return Schema::any().with("$ref", "\"#/$defs/" + std::to_string(at) + "\"");
  }

  template <typename C, typename M>
  Schema add(const Schema& s, const Field<C, M>& f) {
    if constexpr (is_optional<M>::value) {
      return s.optional(f.name, of<typename M::value_type>(f.limits));
    } else {
      return s.field(f.name, of<M>(f.limits));
    }
  }

  std::vector<const void*> names_;
  std::vector<std::string> definitions_;
};

/// Reads the part of a value at a pointer.
template <typename T>
Status read(const Output& output, const std::string& at, T& into) {
  const auto set = [&](auto result) -> Status {
    if (!result) return result.error();
    into = static_cast<T>(*std::move(result));
    return Done{};
  };
  if constexpr (std::is_same_v<T, bool>) {
    return set(output.boolean(at));
  } else if constexpr (std::is_integral_v<T>) {
    return set(output.integer(at));
  } else if constexpr (std::is_floating_point_v<T>) {
    return set(output.number(at));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return set(output.string(at));
  } else if constexpr (is_vector<T>::value) {
    auto count = output.count(at);
    if (!count) return count.error();
    into.clear();
    for (std::size_t i = 0; i < *count; ++i) {
      typename T::value_type item{};
      auto done = read(output, at + "/" + std::to_string(i), item);
      if (!done) return done;
      into.push_back(std::move(item));
    }
    return Done{};
  } else if constexpr (is_array<T>::value) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      auto done = read(output, at + "/" + std::to_string(i), into[i]);
      if (!done) return done;
    }
    return Done{};
  } else if constexpr (is_optional<T>::value) {
    auto kind = output.kind(at);
    into.reset();
    // The value is of its type, so what is not there was left out.
    if (!kind || *kind == LEAN_KIND_NULL) return Done{};
    typename T::value_type item{};
    auto done = read(output, at, item);
    if (done) into = std::move(item);
    return done;
  } else {
    Status all = Done{};
    const auto one = [&](const auto& f) {
      std::string name;
      for (const char c : f.name) name += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      if (all) all = read(output, at + "/" + name, into.*(f.member));
    };
    std::apply([&](const auto&... f) { (one(f), ...); }, describe(Of<T>{}));
    return all;
  }
}

}  // namespace detail

/// The JSON Schema of a C++ type.
template <typename T>
std::string schema_of() {
  detail::Walk walk;
  return walk.finish(walk.of<T>());
}

/// The type that a C++ type stands for: std::string is unquoted text; a described struct, std::vector, std::array,
/// std::optional, number or bool is JSON. A field that is an optional may be left out, another optional may be null. A
/// float stays within 1e15.
template <typename T>
Result<Type> type_of() {
  if constexpr (std::is_same_v<T, std::string>) {
    return Type::text();
  } else {
    return Type::schema(schema_of<T>());
  }
}

/// The value of an output as a T.
template <typename T>
Result<T> value_of(const Output& output) {
  T value{};
  auto done = detail::read(output, "", value);
  if (!done) return done.error();
  return value;
}

/// A call of a tool.
struct Call {
  std::string name;
  /// The JSON pointer of its arguments: `output.string(call.at + "/city")`.
  std::string at;
};

/// What a model says, and the calls that it makes.
struct Reply {
  std::string text;
  std::vector<Call> calls;
};

/// The value of an output whose type is Type::tools.
inline Result<Reply> reply_of(const Output& output) {
  auto text = output.string("/text");
  if (!text) return text.error();
  auto count = output.count("/calls");
  if (!count) return count.error();
  Reply reply{*std::move(text), {}};
  for (std::size_t i = 0; i < *count; ++i) {
    const std::string at = "/calls/" + std::to_string(i);
    auto name = output.string(at + "/name");
    if (!name) return name.error();
    reply.calls.push_back({*std::move(name), at + "/arguments"});
  }
  return reply;
}

/// The arguments of a call as a T: a described struct.
template <typename T>
Result<T> arguments_of(const Output& output, const Call& call) {
  T value{};
  auto done = detail::read(output, call.at, value);
  if (!done) return done.error();
  return value;
}

/// A value of the type T, which follows a context; nothing is kept.
template <typename T>
Result<T> generate(const Model& model, const Context& context, const GenerateOptions& options = {}) {
  auto type = type_of<T>();
  if (!type) return type.error();
  auto output = model.generate(context, *type, options);
  if (!output) return output.error();
  return value_of<T>(*output);
}

/// A value of the type T, which continues a session and becomes part of it.
template <typename T>
Result<T> generate(Session& session, const GenerateOptions& options = {}) {
  auto type = type_of<T>();
  if (!type) return type.error();
  auto stream = session.generate(*type, options);
  if (!stream) return stream.error();
  auto output = stream->finish();
  if (!output) return output.error();
  return value_of<T>(*output);
}

}  // namespace lean

#endif  // LEAN_HPP
