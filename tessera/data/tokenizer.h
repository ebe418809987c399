#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Text to token ids. Stateless after construction: any thread may encode.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Appends the ids of `text` to `ids`; no EOD.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
  /// All ids are below.
  virtual int64_t vocab_size() const = 0;
  /// Id that ends a document, if the tokenizer has one.
  virtual std::optional<int32_t> eod() const = 0;
  virtual std::optional<int32_t> pad() const = 0;
};

/// Ids 0 .. 255 are the bytes of the text, 256 ends a document, 257 pads: a vocabulary of 258.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// A SentencePiece model file; EOD is its end-of-sentence piece, if it has one. Throws ConfigError.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model_path);

/// "byte" or "sentencepiece:MODEL". Throws ConfigError on anything else.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec);

}  // namespace tessera
