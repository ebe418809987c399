#include "tessera/data/tokenizer/regex_syntax.h"

#include <vector>

#include "tessera/base/error.h"

namespace tessera {

namespace {

constexpr std::string_view kSpace = "\\p{White_Space}";
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// What Oniguruma's \w has beside it, outside of a set alone: ² ³ ¹ ¼ ½ ¾.
constexpr std::string_view kWordAlone = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
constexpr std::string_view kHex = "0-9a-fA-F";

// Names behind \p that are no scripts, and what PCRE2 calls them where that differs.
struct Property {
  std::string_view name, here;
};
constexpr Property kProperties[] = {{"any", ""},
                                    {"ascii", ""},
                                    {"alphabetic", ""},
                                    {"cased", ""},
                                    {"caseignorable", ""},
                                    {"dash", ""},
                                    {"diacritic", ""},
                                    {"emoji", ""},
                                    {"emojimodifier", ""},
                                    {"emojipresentation", ""},
                                    {"extendedpictographic", ""},
                                    {"extender", ""},
                                    {"hexdigit", ""},
                                    {"idcontinue", ""},
                                    {"idstart", ""},
                                    {"ideographic", ""},
                                    {"joincontrol", ""},
                                    {"lowercase", ""},
                                    {"math", ""},
                                    {"quotationmark", ""},
                                    {"radical", ""},
                                    {"sentenceterminal", ""},
                                    {"softdotted", ""},
                                    {"terminalpunctuation", ""},
                                    {"unifiedideograph", ""},
                                    {"uppercase", ""},
                                    {"variationselector", ""},
                                    {"whitespace", ""},
                                    {"xidcontinue", ""},
                                    {"xidstart", ""},
                                    {"letter", "L"},
                                    {"uppercaseletter", "Lu"},
                                    {"lowercaseletter", "Ll"},
                                    {"titlecaseletter", "Lt"},
                                    {"modifierletter", "Lm"},
                                    {"otherletter", "Lo"},
                                    {"mark", "M"},
                                    {"nonspacingmark", "Mn"},
                                    {"spacingmark", "Mc"},
                                    {"enclosingmark", "Me"},
                                    {"number", "N"},
                                    {"decimalnumber", "Nd"},
                                    {"letternumber", "Nl"},
                                    {"othernumber", "No"},
                                    {"punctuation", "P"},
                                    {"symbol", "S"},
                                    {"mathsymbol", "Sm"},
                                    {"currencysymbol", "Sc"},
                                    {"modifiersymbol", "Sk"},
                                    {"othersymbol", "So"},
                                    {"separator", "Z"},
                                    {"spaceseparator", "Zs"},
                                    {"other", "C"},
                                    {"control", "Cc"},
                                    {"format", "Cf"},
                                    {"privateuse", "Co"},
                                    {"alpha", "Alphabetic"},
                                    {"space", "White_Space"},
                                    {"upper", "Uppercase"},
                                    {"lower", "Lowercase"},
                                    {"digit", "Nd"}};

// PCRE2 takes the bare name of a script for all characters that are used with it
// (Script_Extensions), Oniguruma for those of the script alone.
std::string property(std::string_view name) {
  const bool negated = name.starts_with('^');
  if (negated) name.remove_prefix(1);
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z')
      plain += static_cast<char>(c + 32);
    else if (c != '_' && c != '-' && c != ' ')
      plain += c;
  }
  std::string here = "sc:" + std::string(name);
  if (plain.size() <= 2) here = name;  // a category
  for (const Property& known : kProperties) {
    if (known.name == plain) here = known.here.empty() ? name : known.here;
  }
  return (negated ? "^" : "") + here;
}

// One pass over the pattern. `atom_` is where in the output the last repeatable part begins.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) item();
    if (!open_.empty()) refuse("a group that is not closed", open_.back().second);
    return out_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, size_t at) const {
    throw ConfigError(detail::concat("regex: ", what, " (byte ", at + 1, " of the pattern)"));
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  void item() {
    const char c = in_[at_];
    if (c == '\\') {
      atom_ = out_.size();
      escape();
    } else if (c == '[') {
      atom_ = out_.size();
      set();
    } else if (c == '(') {
      group();
    } else if (c == ')') {
      if (open_.empty()) refuse("a closing parenthesis without its group", at_);
      atom_ = open_.back().first;
      open_.pop_back();
      out_ += in_[at_++];
    } else if (c == '{') {
      interval();
    } else {
      if (c != '*' && c != '+' && c != '?') atom_ = out_.size();
      out_ += in_[at_++];
      // The rest of a character of several bytes belongs to the same atom.
      while ((static_cast<unsigned char>(peek()) & 0xc0) == 0x80) out_ += in_[at_++];
    }
  }

  void group() {
    const size_t begin = at_;
    open_.emplace_back(out_.size(), at_);
    out_ += in_[at_++];
    if (peek() != '?') return;
    const std::string_view rest = in_.substr(at_);
    for (const std::string_view known : {"?:", "?=", "?!", "?>", "?<=", "?<!"}) {
      if (!rest.starts_with(known)) continue;
      out_ += known;
      at_ += known.size();
      return;
    }
    if (rest.starts_with("?<")) {  // named
      out_ += "?<";
      at_ += 2;
      return;
    }
    // Switches: m lets the dot match a newline, which is PCRE2's s.
    size_t end = 1;
    while (end < rest.size() && std::string_view("imx-").find(rest[end]) != std::string::npos)
      ++end;
    if (end == 1 || end == rest.size() || (rest[end] != ':' && rest[end] != ')')) {
      refuse("a group of a kind that is not known", begin);
    }
    for (const char c : rest.substr(0, end)) out_ += c == 'm' ? 's' : c;
    at_ += end;
    if (peek() == ':') out_ += in_[at_++];  // else the parenthesis closes it
  }

  // {n}, {n,}, {n,m}, {,m}; anything else is text.
  void interval() {
    const size_t close = in_.find('}', at_);
    const std::string_view inside =
        close == std::string::npos ? "" : in_.substr(at_ + 1, close - at_ - 1);
    if (inside.empty() || inside == "," ||
        inside.find_first_not_of("0123456789,") != std::string::npos) {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += inside.front() == ',' ? "{0" : "{";
    out_ += inside;
    out_ += '}';
    at_ = close + 1;
    if (peek() == '+') {  // not possessive: once more around it
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    } else if (peek() == '?' && inside.find(',') == std::string::npos) {
      refuse("{n}?, which is read in several ways, is not known", close);
    }
  }

  void escape() {
    const size_t begin = at_++;
    const char c = peek();
    ++at_;
    switch (c) {
      case 's': out_ += kSpace; return;
      case 'S': out_ += "\\P{White_Space}"; return;
      case 'w': out_ += detail::concat("[", kWord, kWordAlone, "]"); return;
      case 'W': out_ += detail::concat("[^", kWord, kWordAlone, "]"); return;
      case 'h': out_ += "[" + std::string(kHex) + "]"; return;
      case 'H': out_ += "[^" + std::string(kHex) + "]"; return;
      case 'b':
      case 'B': {
        const std::string word = detail::concat("[", kWord, kWordAlone, "]");
        const bool edge = c == 'b';
        out_ += "(?:(?<=" + word + (edge ? ")(?!" : ")(?=") + word + ")|(?<!" + word +
                (edge ? ")(?=" : ")(?!") + word + "))";
        return;
      }
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'R':
      case 'X': out_ += {'\\', c}; return;
      default: character_escape(begin, c);
    }
  }

  // Escapes that mean the same inside a set and outside; at_ is behind `c`.
  void character_escape(size_t begin, char c) {
    const auto letter = [](char x) { return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z'); };
    if (c == '\0') refuse("a backslash at the end", begin);
    if (c == 'p' || c == 'P') {
      const size_t close = in_.find('}', at_);
      if (peek() == '{' && close != std::string::npos) {
        out_ += detail::concat("\\", c, "{", property(in_.substr(at_ + 1, close - at_ - 1)), "}");
        at_ = close + 1;
        return;
      }
      refuse(std::string("\\") + c + " without {NAME}", begin);
    } else if (c == 'v') {
      out_ += "\\x0b";
    } else if (c == 'u') {
      const std::string_view digits = in_.substr(std::min(at_, in_.size()), 4);
      if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
        refuse("\\u without four hexadecimal digits", begin);
      }
      out_ += "\\x{" + std::string(digits) + "}";
      at_ += 4;
    } else if (c == 'x') {
      hexadecimal(begin);
    } else if (c == 'd' || c == 'D' || c == 'n' || c == 'r' || c == 't' || c == 'f' || c == 'a' ||
               c == 'e' || !letter(c)) {
      out_ += in_.substr(begin, at_ - begin);
      while ((static_cast<unsigned char>(peek()) & 0xc0) == 0x80) out_ += in_[at_++];
    } else {
      refuse(std::string("\\") + c + " is not known", begin);
    }
  }

  // \xHH, \x{H...}; at_ is behind the x.
  void hexadecimal(size_t begin) {
    const std::string_view digits = "0123456789abcdefABCDEF";
    size_t end = at_;
    if (peek() == '{') {
      end = in_.find('}', at_);
      if (end == std::string::npos) refuse("\\x{ without its end", begin);
      ++end;
    } else {
      while (end < in_.size() && end < at_ + 2 && digits.find(in_[end]) != std::string::npos) ++end;
    }
    out_ += in_.substr(begin, end - begin);
    at_ = end;
  }

  void set() {
    const size_t begin = at_++;
    out_ += '[';
    if (peek() == '^') out_ += in_[at_++];
    if (peek() == ']') {
      out_ += "\\]";
      ++at_;
    }
    items_of_set(begin);
    out_ += ']';
  }

  // Up to the closing bracket, which is passed. A set inside the set only adds its items.
  void items_of_set(size_t begin) {
    for (;;) {
      if (at_ >= in_.size()) refuse("a set that is not closed", begin);
      const char c = in_[at_];
      if (c == ']') {
        ++at_;
        return;
      }
      if (c == '[' && peek(1) == ':') {
        posix_class();
      } else if (c == '[') {
        const size_t inner = at_++;
        if (peek() == '^') refuse("a negated set inside a set is not known", inner);
        items_of_set(inner);
      } else if (c == '&' && peek(1) == '&') {
        refuse("&& inside a set is not known", at_);
      } else if (c == '\\') {
        escape_in_set();
      } else {
        out_ += in_[at_++];
      }
    }
  }

  void escape_in_set() {
    const size_t begin = at_++;
    const char c = peek();
    ++at_;
    if (c == 's') {
      out_ += kSpace;
    } else if (c == 'S') {
      out_ += "\\P{White_Space}";
    } else if (c == 'w') {
      out_ += kWord;
    } else if (c == 'h') {
      out_ += kHex;
    } else if (c == 'b') {
      out_ += "\\x08";
    } else {
      character_escape(begin, c);
    }
  }

  void posix_class() {
    const size_t begin = at_;
    const size_t close = in_.find(":]", at_);
    const std::string_view name =
        close == std::string::npos ? "" : in_.substr(at_ + 2, close - at_ - 2);
    if (name == "alpha") {
      out_ += "\\p{Alphabetic}";
    } else if (name == "digit") {
      out_ += "\\p{Nd}";
    } else if (name == "alnum") {
      out_ += "\\p{Alphabetic}\\p{Nd}";
    } else if (name == "space") {
      out_ += kSpace;
    } else if (name == "word") {
      out_ += kWord;
    } else if (name == "punct") {
      out_ += "\\p{P}\\p{S}";
    } else if (name == "upper") {
      out_ += "\\p{Uppercase}";
    } else if (name == "lower") {
      out_ += "\\p{Lowercase}";
    } else {
      refuse("[:" + std::string(name) + ":] is not known", begin);
    }
    at_ = close + 2;
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;
  std::vector<std::pair<size_t, size_t>> open_;  // groups: place in the output, in the pattern
};

}  // namespace

std::string to_pcre_syntax(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace tessera
