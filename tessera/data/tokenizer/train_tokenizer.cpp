#include "tessera/data/tokenizer/train_tokenizer.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/utf8.h"
#include "tessera/data/tokenizer/bpe_trainer.h"
#include "tessera/data/tokenizer/byte_letters.h"
#include "tessera/data/tokenizer/pre_tokenizer.h"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kLongestWord = 1024;  // what is longer teaches nothing and costs time

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json pre_tokenizer_of(const std::string& words) {
  if (words == "gpt2") return byte_level(true);
  std::string digits;
  if (words == "digits3") digits = R"(\p{N}{1,3})";
  if (words == "digits1") digits = R"(\p{N})";
  if (digits.empty())
    throw ConfigError("words \"" + words + "\": must be gpt2, digits1 or digits3");
  const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

std::unordered_map<std::string, int64_t> count_words(const TrainTokenizerOptions& options,
                                                     const Json& pre_tokenizer,
                                                     TrainTokenizerReport& report) {
  const nlohmann::json document = nlohmann::json::parse(pre_tokenizer.dump());
  const PreTokenizer cutter(JsonNode(document, "tokenizer.json", "pre_tokenizer"));
  RegexScratch scratch;
  std::unordered_map<std::string, int64_t> counts;
  const auto on_word = [&](const TextPart& word) {
    if (word.text.size() <= kLongestWord) ++counts[std::string(word.text)];
  };
  const auto on_text = [&](std::string_view text, const DocumentFault& place) {
    ++report.documents;
    DocumentFault fault = place;
    const size_t bad = first_invalid_utf8(text);
    fault.why = "a byte that is no UTF-8 (byte " + std::to_string(bad + 1) + " of the text)";
    if (bad < text.size()) throw ConfigError(to_string(fault));
    cutter.cut({text, true}, scratch, on_word);
  };
  const auto on_fault = [](const DocumentFault& fault) { throw ConfigError(to_string(fault)); };
  DocumentSource source(options.source);
  for (Batch batch; source.next(batch);) {
    for (const Piece& piece : batch.pieces) {
      for_each_document(piece, options.source.json_key, on_text, on_fault);
    }
  }
  if (counts.empty()) throw ConfigError("the inputs hold no text");
  report.words = static_cast<int64_t>(counts.size());
  return counts;
}

Json model_of(const TrainedBpe& trained) {
  std::vector<std::string> names;
  Json vocabulary = Json::object();
  for (const std::string& piece : trained.pieces) {
    names.push_back(spelled_in_letters(piece));
    vocabulary[names.back()] = names.size() - 1;
  }
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges) {
    merges.push_back({names[static_cast<size_t>(left)], names[static_cast<size_t>(right)]});
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

// Under a temporary name first: what stands there is whole.
void write_file(const fs::path& path, const Json& document) {
  const fs::path temporary = path.string() + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file << document.dump(1) << "\n";
  file.close();
  std::error_code error;
  if (file) fs::rename(temporary, path, error);
  if (!file || error) {
    fs::remove(temporary, error);
    throw ConfigError(path.string() + ": cannot be written");
  }
}

void check_options(const TrainTokenizerOptions& options) {
  const std::set<std::string> apart(options.special.begin(), options.special.end());
  if (apart.size() != options.special.size() || apart.contains("")) {
    throw ConfigError("special tokens must be apart from each other and not empty");
  }
  const int64_t least = 256 + static_cast<int64_t>(apart.size());
  if (options.vocab_size < least) {
    throw ConfigError(detail::concat("vocabulary of ", options.vocab_size, ": must be at least ",
                                     least, ", 256 bytes and the special tokens"));
  }
}

}  // namespace

TrainTokenizerReport train_tokenizer(const TrainTokenizerOptions& options) {
  check_options(options);
  TrainTokenizerReport report;
  const Json pre_tokenizer = pre_tokenizer_of(options.words);
  const auto special_count = static_cast<int64_t>(options.special.size());
  const TrainedBpe trained =
      train_bpe(count_words(options, pre_tokenizer, report), options.vocab_size - special_count);
  Json added = Json::array();
  auto id = static_cast<int64_t>(trained.pieces.size());
  for (const std::string& token : options.special) {
    added.push_back({{"id", id++},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  report.vocab_size = id;
  const Json document = {{"version", "1.0"},          {"truncation", nullptr},
                         {"padding", nullptr},        {"added_tokens", std::move(added)},
                         {"normalizer", nullptr},     {"pre_tokenizer", pre_tokenizer},
                         {"post_processor", nullptr}, {"decoder", byte_level(true)},
                         {"model", model_of(trained)}};
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (!options.special.empty()) config["eos_token"] = options.special.front();

  std::error_code error;
  fs::create_directories(options.output, error);  // writing says what is wrong
  write_file(fs::path(options.output) / "tokenizer.json", document);
  write_file(fs::path(options.output) / "tokenizer_config.json", config);
  return report;
}

}  // namespace tessera
