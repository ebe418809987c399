#include "tessera/data/tokenizer/pre_tokenizer.h"

#include "tessera/base/utf8.h"
#include "tessera/data/tokenizer/cut_steps.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

// GPT-2's words, which ByteLevel cuts by itself.
constexpr std::string_view kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Whitespace: the joiners are word characters there.
constexpr std::string_view kWords = R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)";

PrependScheme prepend_scheme(const JsonNode& node) {
  if (const auto older = node.find("add_prefix_space"); older && !node.find("prepend_scheme")) {
    return older->flag() ? PrependScheme::kAlways : PrependScheme::kNever;
  }
  const auto scheme = node.find("prepend_scheme");
  if (!scheme || scheme->text() == "always") return PrependScheme::kAlways;
  if (scheme->text() == "first") return PrependScheme::kFirst;
  if (scheme->text() == "never") return PrependScheme::kNever;
  scheme->refuse("\"" + scheme->text() + "\" is not known: always, first, never");
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonNode& node) { add(node); }

void PreTokenizer::add_byte_level(const JsonNode& node) {
  node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (node.flag("add_prefix_space", true)) steps_.push_back(prefix_blank());
  if (node.flag("use_regex", true)) {
    steps_.push_back(
        cut_by_pattern(SearchPattern(kByteLevelWords), SplitBehavior::kIsolated, false));
  }
  ends_in_bytes_ = true;
}

void PreTokenizer::add(const JsonNode& node) {
  const std::string type = node.text("type");
  if (ends_in_bytes_ && type != "Sequence") {  // something comes behind it
    steps_.push_back(spell_bytes());
    ends_in_bytes_ = false;
  }
  if (type == "Sequence") {
    node.only({"type", "pretokenizers"});
    for (const JsonNode& step : node.at("pretokenizers").items()) add(step);
  } else if (type == "ByteLevel") {
    add_byte_level(node);
  } else if (type == "Split") {
    node.only({"type", "pattern", "behavior", "invert"});
    steps_.push_back(cut_by_pattern(SearchPattern(node.at("pattern")),
                                    split_behavior(node.at("behavior")),
                                    node.flag("invert", false)));
  } else if (type == "Digits") {
    node.only({"type", "individual_digits"});
    steps_.push_back(cut_by_character(is_numeric, node.flag("individual_digits", false)
                                                      ? SplitBehavior::kIsolated
                                                      : SplitBehavior::kContiguous));
  } else if (type == "Metaspace") {
    node.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    std::string mark;
    append_utf8(node.at("replacement").character(), mark);
    steps_.push_back(mark_blanks(mark, prepend_scheme(node), node.flag("split", true)));
  } else if (type == "Whitespace") {
    node.only({"type"});
    steps_.push_back(cut_by_pattern(SearchPattern(kWords), SplitBehavior::kRemoved, true));
  } else if (type == "WhitespaceSplit") {
    node.only({"type"});
    steps_.push_back(cut_by_character(is_white_space, SplitBehavior::kRemoved));
  } else if (type == "Punctuation") {
    node.only({"type", "behavior"});
    const auto behavior = node.find("behavior");
    steps_.push_back(cut_by_character(
        is_punctuation, behavior ? split_behavior(*behavior) : SplitBehavior::kIsolated));
  } else {
    node.at("type").refuse("\"" + type +
                           "\" is not known: ByteLevel, Split, Digits, Metaspace, Whitespace, "
                           "WhitespaceSplit, Punctuation, Sequence");
  }
}

void PreTokenizer::run(size_t step, const TextPart& part, RegexScratch& scratch,
                       EmitPart emit) const {
  if (step == steps_.size()) {
    emit(part);
    return;
  }
  const bool last = step + 1 == steps_.size();
  if (last) {
    steps_[step]->cut(part, scratch, emit);
    return;
  }
  const auto go_on = [&](const TextPart& smaller) { run(step + 1, smaller, scratch, emit); };
  steps_[step]->cut(part, scratch, go_on);
}

}  // namespace tessera
