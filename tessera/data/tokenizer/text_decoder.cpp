#include "tessera/data/tokenizer/text_decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "tessera/base/utf8.h"
#include "tessera/data/tokenizer/byte_letters.h"
#include "tessera/data/tokenizer/search_pattern.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

constexpr std::string_view kReplacement = "\uFFFD";

class ByteLevelStep : public DecodeStep {
 public:
  void apply(std::vector<std::string>& pieces, RegexScratch&) const override {
    std::string bytes;
    for (const std::string& piece : pieces) bytes += bytes_of_letters(piece).value_or(piece);
    pieces = {with_valid_utf8(bytes)};
  }
};

// <0xNN> pieces in a row are the bytes of a text; if they are none, each becomes a replacement.
class ByteFallbackStep : public DecodeStep {
 public:
  void apply(std::vector<std::string>& pieces, RegexScratch&) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto close = [&] {
      if (bytes.empty()) return;
      if (first_invalid_utf8(bytes) == bytes.size()) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(kReplacement));
      }
      bytes.clear();
    };
    for (std::string& piece : pieces) {
      if (const auto byte = byte_of(piece)) {
        bytes += *byte;
      } else {
        close();
        out.push_back(std::move(piece));
      }
    }
    close();
    pieces = std::move(out);
  }

 private:
  static std::optional<char> byte_of(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
    unsigned value = 0;
    const auto end = piece.data() + 5;
    if (std::from_chars(piece.data() + 3, end, value, 16).ptr != end) return std::nullopt;
    return static_cast<char>(value);
  }
};

class FuseStep : public DecodeStep {
 public:
  void apply(std::vector<std::string>& pieces, RegexScratch&) const override {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    pieces = {std::move(all)};
  }
};

class ReplaceStep : public DecodeStep {
 public:
  ReplaceStep(const JsonNode& pattern, std::string content)
      : pattern_(pattern), content_(std::move(content)) {}
  void apply(std::vector<std::string>& pieces, RegexScratch& scratch) const override {
    for (std::string& piece : pieces) piece = pattern_.replace(piece, content_, scratch);
  }

 private:
  SearchPattern pattern_;
  std::string content_;
};

// Takes up to `start` and `stop` times the character from the ends of every piece.
class StripStep : public DecodeStep {
 public:
  StripStep(std::string character, int64_t start, int64_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& pieces, RegexScratch&) const override {
    for (std::string& piece : pieces) {
      std::string_view rest = piece;
      for (int64_t i = 0; i < start_ && rest.starts_with(character_); ++i) {
        rest.remove_prefix(character_.size());
      }
      for (int64_t i = 0; i < stop_ && rest.ends_with(character_); ++i) {
        rest.remove_suffix(character_.size());
      }
      piece = std::string(rest);
    }
  }

 private:
  std::string character_;
  int64_t start_, stop_;
};

// Marks become blanks; those of the first piece are left out, unless nothing was put in front.
class MetaspaceStep : public DecodeStep {
 public:
  MetaspaceStep(std::string mark, bool drop_first) : mark_(std::move(mark)), drop_(drop_first) {}
  void apply(std::vector<std::string>& pieces, RegexScratch&) const override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      std::string out;
      std::string_view rest = pieces[i];
      for (size_t at; (at = rest.find(mark_)) != std::string_view::npos;) {
        out.append(rest.substr(0, at));
        if (i > 0 || !drop_) out += ' ';
        rest.remove_prefix(at + mark_.size());
      }
      pieces[i] = out.append(rest);
    }
  }

 private:
  std::string mark_;
  bool drop_;
};

bool drops_first_mark(const JsonNode& node) {
  if (const auto scheme = node.find("prepend_scheme")) return scheme->text() != "never";
  return node.flag("add_prefix_space", true);
}

std::string one_character(const JsonNode& node) {
  std::string character;
  append_utf8(node.character(), character);
  return character;
}

void add_steps(const JsonNode& node, std::vector<std::unique_ptr<const DecodeStep>>& steps) {
  const std::string type = node.text("type");
  if (type == "Sequence") {
    node.only({"type", "decoders"});
    for (const JsonNode& step : node.at("decoders").items()) add_steps(step, steps);
  } else if (type == "ByteLevel") {
    node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    steps.push_back(std::make_unique<ByteLevelStep>());
  } else if (type == "ByteFallback") {
    node.only({"type"});
    steps.push_back(std::make_unique<ByteFallbackStep>());
  } else if (type == "Fuse") {
    node.only({"type"});
    steps.push_back(std::make_unique<FuseStep>());
  } else if (type == "Replace") {
    node.only({"type", "pattern", "content"});
    steps.push_back(std::make_unique<ReplaceStep>(node.at("pattern"), node.text("content")));
  } else if (type == "Strip") {
    node.only({"type", "content", "start", "stop"});
    steps.push_back(std::make_unique<StripStep>(one_character(node.at("content")),
                                                node.at("start").integer(0),
                                                node.at("stop").integer(0)));
  } else if (type == "Metaspace") {
    node.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    steps.push_back(std::make_unique<MetaspaceStep>(one_character(node.at("replacement")),
                                                    drops_first_mark(node)));
  } else {
    node.at("type").refuse("\"" + type +
                           "\" is not known: ByteLevel, Replace, ByteFallback, Fuse, Strip, "
                           "Metaspace, Sequence");
  }
}

}  // namespace

std::vector<std::unique_ptr<const DecodeStep>> make_decoder(const JsonNode& node) {
  std::vector<std::unique_ptr<const DecodeStep>> steps;
  add_steps(node, steps);
  return steps;
}

}  // namespace tessera
