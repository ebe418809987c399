#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {

/// A text that a tokenizer cannot encode.
class EncodeError : public ConfigError {
 public:
  EncodeError(const std::string& why, size_t at) : ConfigError(why), at_(at) {}
  /// Byte of the text.
  size_t at() const { return at_; }

 private:
  size_t at_;
};

/// Text to token ids and back. Stateless after construction: any thread may encode.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Appends the ids of `text` to `ids`; no EOD, and nothing that a template puts around a text.
  /// Throws EncodeError.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
  /// The text of `ids`; those that stand for none are left out. `skip_special`: so are special
  /// tokens. Bytes that are no UTF-8 become U+FFFD.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  /// How the vocabulary writes `id`; nothing if it has none.
  virtual std::optional<std::string> piece(int32_t id) const = 0;
  /// Bytes of text that `id` stands for; 0 for a special token and for an id that there is not.
  virtual int64_t text_bytes(int32_t id) const = 0;
  /// Ids that the tokenizer's template puts before and behind a text; none by default.
  virtual void around(std::vector<int32_t>& before, std::vector<int32_t>& after) const {
    before.clear();
    after.clear();
  }
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

/// A tokenizer.json, or a folder with one. Throws ConfigError.
std::unique_ptr<Tokenizer> make_json_tokenizer(const std::string& path);

/// "byte", "sentencepiece:MODEL", or the path of a tokenizer.json or of a folder with one. Throws
/// ConfigError on anything else.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec);

}  // namespace tessera
