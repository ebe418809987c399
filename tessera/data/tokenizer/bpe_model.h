#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/data/tokenizer/json_node.h"
#include "tessera/data/tokenizer/merge_table.h"
#include "tessera/data/tokenizer/merger.h"
#include "tessera/data/tokenizer/word_cache.h"

namespace tessera {

/// Byte-pair encoding: `model` of a tokenizer.json. Immutable.
class BpeModel {
 public:
  /// What a thread encodes with.
  struct Scratch {
    explicit Scratch(const BpeModel& model) : merger(model.merges_) {}
    Merger merger;
    WordCache words;
    std::vector<int32_t> ids;  // of the word at hand
  };

  /// `raw_bytes`: words come as bytes that stand for the letters of a byte-level vocabulary.
  /// Throws ConfigError: a model that is not BPE, a setting or a member that is not known, ids that
  /// are not apart, a merge of pieces that are not in the vocabulary.
  BpeModel(const JsonNode& node, bool raw_bytes);

  /// Appends the ids of a word. Throws ConfigError where the model asks for an unknown token that
  /// its vocabulary does not have.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  std::optional<int32_t> id_of(const std::string& piece) const;
  /// Pieces and their ids.
  const std::unordered_map<std::string, int32_t>& vocabulary() const { return vocabulary_; }

 private:
  void read_vocabulary(const JsonNode& node);
  void read_merges(const JsonNode& node);
  void find_symbols();
  void find_cut_mark();
  void encode_part(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
  void merge_word(std::string_view word, Scratch& scratch) const;
  void add_characters(std::string_view word, std::vector<int32_t>& ids) const;
  bool add_bytes(std::string_view character, std::vector<int32_t>& ids) const;
  void add_unknown(std::vector<int32_t>& ids) const;

  bool raw_bytes_;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  std::optional<std::string> unknown_;
  std::unordered_map<std::string, int32_t> vocabulary_;
  MergeTable merges_;
  std::unordered_map<std::string, int32_t> whole_words_;  // with ignore_merges, as words come
  std::array<int32_t, 256> id_of_byte_{};  // of the letter (raw_bytes) or of <0xNN>; -1: none
  std::vector<int32_t> id_of_character_;   // below U+10000; -1: none
  std::string
      cut_mark_;  // words may be cut in front of it: no piece has it behind another character
};

}  // namespace tessera
