#include "tessera/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tessera/base/error.h"
#include "tessera/data/tokenizer/regex_syntax.h"

namespace tessera {

namespace {

constexpr size_t kSmallestStack = 32 << 10;
constexpr size_t kLargestStack = 16 << 20;

std::string message_of(int code) {
  PCRE2_UCHAR text[200];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct RegexScratch::State {
  State()
      : match(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kSmallestStack, kLargestStack, nullptr)) {
    TESSERA_CHECK(match && context, "no memory for a regex");
    if (stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    if (stack) pcre2_jit_stack_free(stack);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;  // none where there is no JIT
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {}
RegexScratch::~RegexScratch() = default;

struct Regex::Code {
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  const std::string translated = to_pcre_syntax(pattern);
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  TESSERA_CHECK(context, "no memory for a regex");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, context);
  pcre2_compile_context_free(context);
  if (!code_->code) {
    throw ConfigError(detail::concat("regex: ", message_of(error), " (in \"", translated,
                                     "\", byte ", at + 1, ")"));
  }
  // Without JIT, as on a processor that PCRE2 has none for, matching is the same and slower.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;

std::optional<Span> Regex::find(std::string_view text, size_t from, RegexScratch& scratch) const {
  RegexScratch::State& state = *scratch.state_;
  const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                from, PCRE2_NO_UTF_CHECK, state.match, state.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) throw RegexLimit("the regex gives up: " + message_of(found), from);
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(state.match);
  return Span{place[0], place[1]};
}

}  // namespace tessera
