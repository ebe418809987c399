#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/data/tokenizer.h"
#include "tessera/data/tokenizer/added_tokens.h"
#include "tessera/data/tokenizer/bpe_model.h"
#include "tessera/data/tokenizer/normalizer.h"
#include "tessera/data/tokenizer/pre_tokenizer.h"
#include "tessera/data/tokenizer/text_decoder.h"
#include "tessera/data/tokenizer/text_template.h"

namespace tessera {

/// The tokenizer of a tokenizer.json, as the `tokenizers` package of Hugging Face reads it. Any
/// thread may use it. Settings of truncation and padding are read and have no effect.
class JsonTokenizer : public Tokenizer {
 public:
  /// A tokenizer.json, or a folder with one; a tokenizer_config.json beside it says which tokens
  /// end and pad. Throws ConfigError: what is not known, by file, place and name.
  explicit JsonTokenizer(const std::string& path);
  ~JsonTokenizer() override;

  void encode(std::string_view text, std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override;
  std::optional<std::string> piece(int32_t id) const override;
  int64_t text_bytes(int32_t id) const override;
  void around(std::vector<int32_t>& before, std::vector<int32_t>& after) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> eod() const override { return eod_; }
  std::optional<int32_t> pad() const override { return pad_; }

  /// Encodes a part of a text. `first`: it begins the text; tokens of `as_text` stay text.
  void encode_part(std::string_view text, bool first, const std::unordered_set<int32_t>* as_text,
                   std::vector<int32_t>& ids) const;
  std::optional<int32_t> id_of(const std::string& piece) const;
  const std::vector<AddedToken>& added_tokens() const { return added_; }

 private:
  struct Scratch;
  class Lease;

  void read_added(const JsonNode& root);
  void read_config(const std::string& path);
  void encode_words(std::string_view text, bool first, Scratch& scratch,
                    std::vector<int32_t>& ids) const;

  std::unique_ptr<const Normalizer> normalizer_;  // may be null
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<const BpeModel> model_;
  TextTemplate template_;
  std::vector<std::unique_ptr<const DecodeStep>> decoder_;
  bool has_decoder_ = false;
  std::vector<AddedToken> added_;
  AddedTokenFinder in_text_, in_normalized_;
  std::unordered_map<int32_t, std::string> pieces_;
  std::unordered_set<int32_t> special_;
  int64_t vocab_size_ = 0;
  std::optional<int32_t> eod_, pad_;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;  // of threads that are not encoding now
};

}  // namespace tessera
