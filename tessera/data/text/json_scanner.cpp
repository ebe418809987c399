#include "tessera/data/text/json_scanner.h"

#include "tessera/base/utf8.h"

namespace tessera {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The part of `text` from `at` that a string can hold as it is.
size_t end_of_plain(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"' && text[at] != '\\' &&
         static_cast<unsigned char>(text[at]) >= 0x20) {
    ++at;
  }
  return at;
}

}  // namespace

bool JsonScanner::fail(const std::string& why) {
  why_ = why;
  return false;
}

bool JsonScanner::fail_at_end() {
  ended_early_ = true;
  return fail("it ends too early");
}

void JsonScanner::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n')) {
    ++at_;
  }
}

bool JsonScanner::take(char c) {
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool JsonScanner::skip_key() {
  skip_space();
  if (!skip_string()) return false;
  skip_space();
  if (take(':')) return true;
  return at_end() ? fail_at_end() : fail("a colon is missing");
}

bool JsonScanner::skip_value() {
  std::string open;  // the brackets that enclose this place
  for (;;) {
    skip_space();
    if (at_end()) return fail_at_end();
    const char c = text_[at_];
    if (c == '{' || c == '[') {
      ++at_;
      skip_space();
      if (!take(c == '{' ? '}' : ']')) {
        open += c;
        if (c == '{' && !skip_key()) return false;
        continue;
      }
    } else if (c == '"') {
      if (!skip_string()) return false;
    } else if (!skip_number()) {
      return false;
    }
    // A value is complete; so may be those that enclose it.
    for (;;) {
      if (open.empty()) return true;
      skip_space();
      if (at_end()) return fail_at_end();
      if (take(',')) {
        if (open.back() == '{' && !skip_key()) return false;
        break;
      }
      if (!take(open.back() == '{' ? '}' : ']')) return fail("a comma or a bracket is missing");
      open.pop_back();
    }
  }
}

bool JsonScanner::skip_number() {
  for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity", "-Infinity"}) {
    const std::string_view rest = text_.substr(at_, word.size());
    if (rest == word) {
      at_ += word.size();
      return true;
    }
    if (rest.size() > 1 && at_ + rest.size() == text_.size() && word.starts_with(rest)) {
      at_ = text_.size();
      return fail_at_end();
    }
  }
  const auto digits = [&] {
    const size_t before = at_;
    while (!at_end() && is_digit(text_[at_])) ++at_;
    return at_ > before;
  };
  const auto missing = [&](const char* why) { return at_end() ? fail_at_end() : fail(why); };
  const bool negative = take('-');
  if (take('0')) {
    if (!at_end() && is_digit(text_[at_])) return fail("a number begins with 0");
  } else if (!digits()) {
    return missing(negative ? "a digit is missing" : "no value");
  }
  if (take('.') && !digits()) return missing("a digit is missing");
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (!digits()) return missing("a digit is missing");
  }
  return true;
}

bool JsonScanner::skip_string() {
  if (!take('"')) return at_end() ? fail_at_end() : fail("a quotation mark is missing");
  for (;;) {
    at_ = end_of_plain(text_, at_);
    if (at_end()) return fail_at_end();
    if (take('"')) return true;
    if (text_[at_] != '\\') return fail("a control character in a string");
    if (!skip_escape()) return false;
  }
}

bool JsonScanner::skip_escape() {
  ++at_;  // the backslash
  if (at_end()) return fail_at_end();
  unsigned ignored = 0;
  if (take('u')) return read_hex4(ignored);
  if (std::string_view("\"\\/bfnrt").find(text_[at_]) == std::string_view::npos) {
    return fail("an unknown escape");
  }
  ++at_;
  return true;
}

bool JsonScanner::read_hex4(unsigned& code) {
  code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (at_end()) return fail_at_end();
    const int digit = hex_digit(text_[at_]);
    if (digit < 0) return fail("\\u wants four hexadecimal digits");
    code = code << 4 | static_cast<unsigned>(digit);
  }
  return true;
}

bool JsonScanner::read_string(std::string& text) {
  text.clear();
  if (!take('"')) return at_end() ? fail_at_end() : fail("no text");
  for (;;) {
    const size_t end = end_of_plain(text_, at_);
    const std::string_view plain = text_.substr(at_, end - at_);
    const size_t valid = first_invalid_utf8(plain);
    at_ += valid;
    if (valid < plain.size()) return fail("a byte that is no UTF-8");
    text += plain;
    if (at_end()) return fail_at_end();
    if (take('"')) return true;
    if (text_[at_] != '\\') return fail("a control character in a string");
    if (!read_escape(text)) return false;
  }
}

bool JsonScanner::read_escape(std::string& text) {
  const size_t begin = at_;
  if (!skip_escape()) return false;
  const char kind = text_[begin + 1];
  if (kind != 'u') {
    constexpr std::string_view kNames = "bfnrt";
    const size_t which = kNames.find(kind);
    text += which == std::string_view::npos ? kind : "\b\f\n\r\t"[which];
    return true;
  }
  const auto lone = [&] {
    at_ = begin;
    return fail("a lone surrogate: " + std::string(text_.substr(begin, 6)));
  };
  at_ = begin + 2;
  unsigned code = 0;
  read_hex4(code);
  if (code >= 0xd800 && code < 0xdc00) {
    unsigned low = 0;
    if (text_.substr(at_, 2) != "\\u") return lone();
    at_ += 2;
    if (!read_hex4(low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return lone();
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    return lone();
  }
  append_utf8(code, text);
  return true;
}

}  // namespace tessera
