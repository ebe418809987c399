#include <sentencepiece_processor.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/data/tokenizer.h"
#include "tessera/data/tokenizer/piece_bytes.h"

namespace tessera {

namespace {

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& path) {
    if (std::error_code error; std::filesystem::is_directory(path, error)) {
      throw ConfigError(path + ": no SentencePiece model: a folder");
    }
    const auto status = processor_.Load(path);
    if (!status.ok()) {
      throw ConfigError(path + ": no SentencePiece model: " + status.ToString());
    }
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    std::vector<int> pieces;
    const auto status = processor_.Encode({text.data(), text.size()}, &pieces);
    if (!status.ok()) throw ConfigError("SentencePiece: " + status.ToString());
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::vector<int> kept;
    for (const int32_t id : ids) {
      if (!piece(id) || (skip_special && processor_.IsControl(id))) continue;
      kept.push_back(id);
    }
    std::string text;
    const auto status = processor_.Decode(kept, &text);
    if (!status.ok()) throw ConfigError("SentencePiece: " + status.ToString());
    return text;
  }
  std::optional<std::string> piece(int32_t id) const override {
    if (id < 0 || id >= processor_.GetPieceSize()) return std::nullopt;
    return processor_.IdToPiece(id);
  }
  int64_t text_bytes(int32_t id) const override {
    if (!piece(id) || processor_.IsControl(id) || processor_.IsUnknown(id)) return 0;
    return processor_.IsByte(id) ? 1 : bytes_of_spaced(processor_.IdToPiece(id));
  }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> eod() const override { return if_any(processor_.eos_id()); }
  std::optional<int32_t> pad() const override { return if_any(processor_.pad_id()); }

 private:
  static std::optional<int32_t> if_any(int id) {
    return id >= 0 ? std::optional<int32_t>(id) : std::nullopt;
  }

  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model_path) {
  return std::make_unique<SentencePieceTokenizer>(model_path);
}

}  // namespace tessera
