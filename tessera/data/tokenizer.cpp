#include "tessera/data/tokenizer.h"

#include "tessera/base/error.h"

namespace tessera {

namespace {

class ByteTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    ids.insert(ids.end(), bytes, bytes + text.size());
  }
  int64_t vocab_size() const override { return 258; }
  std::optional<int32_t> eod() const override { return 256; }
  std::optional<int32_t> pad() const override { return 257; }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec) {
  const std::string sentencepiece = "sentencepiece:";
  if (spec == "byte") return make_byte_tokenizer();
  if (spec.starts_with(sentencepiece) && spec.size() > sentencepiece.size()) {
    return make_sentencepiece_tokenizer(spec.substr(sentencepiece.size()));
  }
  throw ConfigError("tokenizer \"" + spec + "\": known are byte and sentencepiece:MODEL");
}

}  // namespace tessera
