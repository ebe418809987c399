#include "tessera/data/tokenizer.h"

#include <filesystem>

#include "tessera/base/utf8.h"

namespace tessera {

namespace {

class ByteTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    ids.insert(ids.end(), bytes, bytes + text.size());
  }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id >= 0 && id < 256) {
        text += static_cast<char>(id);
      } else if (const auto name = piece(id); name && !skip_special) {
        text += *name;
      }
    }
    return with_valid_utf8(text);
  }
  std::optional<std::string> piece(int32_t id) const override {
    if (id == 256) return "<eod>";
    if (id == 257) return "<pad>";
    if (id < 0 || id > 257) return std::nullopt;
    return std::string(1, static_cast<char>(id));
  }
  int64_t text_bytes(int32_t id) const override { return id >= 0 && id < 256 ? 1 : 0; }
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
  std::error_code error;
  const std::filesystem::path path(spec);
  if (std::filesystem::is_regular_file(path, error) && path.extension() == ".json") {
    return make_json_tokenizer(spec);
  }
  if (std::filesystem::is_directory(path, error)) {
    if (std::filesystem::exists(path / "tokenizer.json", error)) return make_json_tokenizer(spec);
    const bool piece_model = std::filesystem::exists(path / "tokenizer.model", error);
    throw ConfigError(spec + ": no tokenizer.json in this folder" +
                      (piece_model ? "; its tokenizer.model is read with sentencepiece:" + spec +
                                         "/tokenizer.model"
                                   : ""));
  }
  throw ConfigError("tokenizer \"" + spec +
                    "\": known are byte, sentencepiece:MODEL, and the path of a tokenizer.json or "
                    "of a folder with one");
}

}  // namespace tessera
