#include "tessera/data/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/base/utf8.h"
#include "tessera/data/tokenizer/unicode_ages.h"

namespace tessera {

namespace {

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// Letters that are symbols by category: Other_Alphabetic beside marks and letter numbers.
bool is_enclosed_letter(uint32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

// A character that no normal form changes and that nothing in front of it joins with. (Whatever
// is below U+0300 composes with marks behind it, so a run of others takes it along.)
bool is_plain(uint32_t c, NormalForm form) {
  if (c < 0x80) return true;
  if (form == NormalForm::kNfc && c < 0x300) return true;
  return c >= 0x4e00 && c <= 0x9fff;  // ideographs
}

int options_of(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalForm::kNfd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalForm::kNfkc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::kNfkd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

void append_normal_form(NormalForm form, std::string_view text, std::string& out) {
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &made,
                                 static_cast<utf8proc_option_t>(options_of(form)));
  if (size < 0) {
    std::free(made);
    throw ConfigError(std::string("utf8proc: ") + utf8proc_errmsg(size));
  }
  out.append(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
  std::free(made);
}

}  // namespace

uint32_t previous_code_point(std::string_view text, size_t& at) {
  do {
    --at;
  } while ((static_cast<uint8_t>(text[at]) & 0xc0) == 0x80);
  size_t place = at;
  return next_code_point(text, place);
}

bool is_white_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_numeric(uint32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(uint32_t c) {
  if (c < 0x80) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  }
  const auto kind = category(c);
  const bool today = kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
  return today != is_in(kOtherPunctuation, c);
}

bool is_word_character(uint32_t c) {
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) ||
         kind == UTF8PROC_CATEGORY_PC || is_enclosed_letter(c) || c == 0x200c || c == 0x200d;
}

std::string lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = next_code_point(text, at);
    if (c < 0x80) {
      lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    } else if (c == 0x130) {  // the only one whose lower case is two characters
      lower += "i\u0307";
    } else {
      append_utf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), lower);
    }
  }
  return lower;
}

std::string_view stripped(std::string_view text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  for (size_t at = 0; left && begin < end && is_white_space(next_code_point(text, at));) begin = at;
  for (size_t at = end; right && end > begin && is_white_space(previous_code_point(text, at));) {
    end = at;
  }
  return text.substr(begin, end - begin);
}

std::string normal_form(NormalForm form, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t done = 0;       // what is in `out`
  size_t run_begin = 0;  // of characters that may change, with the plain one in front of them
  bool in_run = false;
  const auto close_run = [&](size_t end) {
    out.append(text.substr(done, run_begin - done));
    append_normal_form(form, text.substr(run_begin, end - run_begin), out);
    done = end;
    in_run = false;
  };
  size_t before = 0;  // where the last plain character begins
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = next_code_point(text, at);
    if (is_plain(c, form)) {
      if (in_run) close_run(begin);
      before = begin;
    } else if (is_in(kInertInNormalForms, c)) {
      if (in_run) close_run(begin);
      before = at;  // nothing joins with it
    } else if (!in_run) {
      run_begin = std::max(done, before);
      in_run = true;
    }
  }
  if (in_run) close_run(text.size());
  return out.append(text.substr(done));
}

}  // namespace tessera
