#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// Walks over one JSON text (RFC 8259) without storing it, so that what nobody reads costs nothing
/// and cannot be too large: numbers are not converted, nesting takes a byte a level, no recursion.
/// NaN, Infinity and -Infinity pass as values, since Python writes them.
///
/// A function that returns false leaves why() and position(), the byte where it stopped.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  size_t position() const { return at_; }
  const std::string& why() const { return why_; }
  /// Whether the failure was only that the text ends too early.
  bool ended_early() const { return ended_early_; }

  void skip_space();
  bool at_end() const { return at_ == text_.size(); }
  /// Takes `c` if it is next.
  bool take(char c);
  /// Passes over one value of any kind.
  bool skip_value();
  /// Passes over one string. Escapes must be legal; surrogates and UTF-8 are not looked at.
  bool skip_string();
  /// Reads one string. Fails also on a lone surrogate and on bytes that are no UTF-8.
  bool read_string(std::string& text);
  /// "why", said of the present position. Returns false.
  bool fail(const std::string& why);

 private:
  bool fail_at_end();
  bool skip_key();
  bool skip_number();
  bool skip_escape();
  bool read_escape(std::string& text);
  bool read_hex4(unsigned& code);

  std::string_view text_;
  size_t at_ = 0;
  std::string why_;
  bool ended_early_ = false;
};

}  // namespace tessera
