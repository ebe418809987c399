#include "tessera/data/tokenizer/normalizer.h"

#include <utility>
#include <vector>

#include "tessera/data/tokenizer/search_pattern.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

class NormalFormNormalizer : public Normalizer {
 public:
  explicit NormalFormNormalizer(NormalForm form) : form_(form) {}
  std::string apply(std::string_view text, RegexScratch&) const override {
    return normal_form(form_, text);
  }

 private:
  NormalForm form_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string text) : text_(std::move(text)) {}
  std::string apply(std::string_view text, RegexScratch&) const override {
    return text.empty() ? "" : text_ + std::string(text);
  }

 private:
  std::string text_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(const JsonNode& pattern, std::string content)
      : pattern_(pattern), content_(std::move(content)) {}
  std::string apply(std::string_view text, RegexScratch& scratch) const override {
    return pattern_.replace(text, content_, scratch);
  }

 private:
  SearchPattern pattern_;
  std::string content_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  std::string apply(std::string_view text, RegexScratch&) const override {
    return lower_case(text);
  }
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  std::string apply(std::string_view text, RegexScratch&) const override {
    return std::string(stripped(text, left_, right_));
  }

 private:
  bool left_, right_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<const Normalizer>> steps)
      : steps_(std::move(steps)) {}
  std::string apply(std::string_view text, RegexScratch& scratch) const override {
    std::string result(text);
    for (const auto& step : steps_) result = step->apply(result, scratch);
    return result;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node) {
  const std::string type = node.text("type");
  for (const auto& [name, form] :
       {std::pair{"NFC", NormalForm::kNfc}, std::pair{"NFD", NormalForm::kNfd},
        std::pair{"NFKC", NormalForm::kNfkc}, std::pair{"NFKD", NormalForm::kNfkd}}) {
    if (type != name) continue;
    node.only({"type"});
    return std::make_unique<NormalFormNormalizer>(form);
  }
  if (type == "Prepend") {
    node.only({"type", "prepend"});
    return std::make_unique<PrependNormalizer>(node.text("prepend"));
  }
  if (type == "Replace") {
    node.only({"type", "pattern", "content"});
    return std::make_unique<ReplaceNormalizer>(node.at("pattern"), node.text("content"));
  }
  if (type == "Lowercase") {
    node.only({"type"});
    return std::make_unique<LowercaseNormalizer>();
  }
  if (type == "Strip") {
    node.only({"type", "strip_left", "strip_right"});
    return std::make_unique<StripNormalizer>(node.flag("strip_left", true),
                                             node.flag("strip_right", true));
  }
  if (type == "Sequence") {
    node.only({"type", "normalizers"});
    std::vector<std::unique_ptr<const Normalizer>> steps;
    for (const JsonNode& step : node.at("normalizers").items()) {
      steps.push_back(make_normalizer(step));
    }
    return std::make_unique<NormalizerSequence>(std::move(steps));
  }
  node.at("type").refuse("\"" + type +
                         "\" is not known: NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, "
                         "Strip, Sequence");
}

}  // namespace tessera
