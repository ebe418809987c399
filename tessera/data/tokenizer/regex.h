#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

/// Bytes [begin, end) of a text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Span&) const = default;
};

/// A match was given up: the pattern tries too many ways on this text.
class RegexLimit : public std::runtime_error {
 public:
  RegexLimit(const std::string& what, size_t at) : std::runtime_error(what), at_(at) {}
  /// Byte of the text from which the match was searched.
  size_t at() const { return at_; }

 private:
  size_t at_;
};

/// What a thread needs to match; any number of patterns can use it in turn.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

/// A compiled pattern (PCRE2 with JIT). Immutable: any thread may match, with scratch of its own.
class Regex {
 public:
  /// `pattern` as tokenizer.json writes it, see to_pcre_syntax. Throws ConfigError.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// The first match in well-formed UTF-8 that begins at byte `from` or later; what is in front of
  /// `from` is looked at by look-behind alone. Throws RegexLimit.
  std::optional<Span> find(std::string_view text, size_t from, RegexScratch& scratch) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace tessera
