#include "tessera/data/tokenizer/json_tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/utf8.h"
#include "tessera/data/tokenizer/piece_bytes.h"

namespace tessera {

namespace fs = std::filesystem;

struct JsonTokenizer::Scratch {
  explicit Scratch(const BpeModel& model) : words(model) {}
  RegexScratch regex;
  BpeModel::Scratch words;
};

// Scratch for one call: an idle one, or a new one.
class JsonTokenizer::Lease {
 public:
  explicit Lease(const JsonTokenizer& owner) : owner_(owner) {
    const std::scoped_lock lock(owner.mutex_);
    if (owner.idle_.empty()) {
      scratch_ = std::make_unique<Scratch>(*owner.model_);
    } else {
      scratch_ = std::move(owner.idle_.back());
      owner.idle_.pop_back();
    }
  }
  ~Lease() {
    const std::scoped_lock lock(owner_.mutex_);
    owner_.idle_.push_back(std::move(scratch_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Scratch& operator*() const { return *scratch_; }

 private:
  const JsonTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

JsonTokenizer::JsonTokenizer(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const std::string file = is_folder ? (fs::path(path) / "tokenizer.json").string() : path;
  const nlohmann::json document = read_json_file(file);
  const JsonNode root(document, file, "");
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"});
  if (const auto node = root.find("normalizer")) normalizer_ = make_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) pre_tokenizer_ = PreTokenizer(*node);
  model_ = std::make_unique<const BpeModel>(root.at("model"), pre_tokenizer_.ends_in_bytes());
  if (const auto node = root.find("post_processor")) template_ = read_text_template(*node);
  if (const auto node = root.find("decoder")) {
    decoder_ = make_decoder(*node);
    has_decoder_ = true;
  }
  for (const auto& [piece, id] : model_->vocabulary()) {
    pieces_[id] = piece;
    vocab_size_ = std::max<int64_t>(vocab_size_, id + 1);
  }
  read_added(root);
  read_config((fs::path(file).parent_path() / "tokenizer_config.json").string());
}

JsonTokenizer::~JsonTokenizer() = default;

void JsonTokenizer::read_added(const JsonNode& root) {
  const auto node = root.find("added_tokens");
  if (!node) return;
  added_ = read_added_tokens(*node);
  std::unordered_set<std::string> special;
  for (const AddedToken& token : added_) {
    if (token.special) special.insert(token.content);
  }
  RegexScratch scratch;
  for (size_t i = 0; i < added_.size(); ++i) {
    const AddedToken& token = added_[i];
    if (const auto id = model_->id_of(token.content); id && *id != token.id) {
      node->items()[i].refuse(detail::concat("\"", token.content, "\" has id ", token.id,
                                             " here and ", *id, " in model.vocab"));
    }
    // A normalized token is written in its normal form when ids are decoded, and left out as a
    // special one if this form is the text of a special token, as in the field's library.
    const std::string text = token.normalized && normalizer_
                                 ? normalizer_->apply(token.content, scratch)
                                 : token.content;
    (token.normalized ? in_normalized_ : in_text_).add(text, token);
    pieces_[token.id] = text;
    if (special.contains(text)) special_.insert(token.id);
    vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
  }
}

void JsonTokenizer::read_config(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  const nlohmann::json document = read_json_file(path);
  const JsonNode root(document, path, "");
  for (const auto& [name, id] : {std::pair{"eos_token", &eod_}, std::pair{"pad_token", &pad_}}) {
    const auto node = root.find(name);
    if (!node) continue;
    const std::string token = node->value().is_object() ? node->text("content") : node->text();
    *id = id_of(token);
    if (!*id) node->refuse("\"" + token + "\" is no token of the tokenizer.json");
  }
}

std::optional<int32_t> JsonTokenizer::id_of(const std::string& piece) const {
  const auto added = std::ranges::find(added_, piece, &AddedToken::content);
  if (added != added_.end()) return added->id;
  return model_->id_of(piece);
}

std::optional<std::string> JsonTokenizer::piece(int32_t id) const {
  const auto found = pieces_.find(id);
  if (found == pieces_.end()) return std::nullopt;
  return found->second;
}

int64_t JsonTokenizer::text_bytes(int32_t id) const {
  const auto found = pieces_.find(id);
  if (found == pieces_.end()) return 0;
  const auto added = std::ranges::find(added_, id, &AddedToken::id);
  if (added != added_.end()) {  // as it stands in a text
    return added->special ? 0 : static_cast<int64_t>(added->content.size());
  }
  return pre_tokenizer_.ends_in_bytes() ? letters_of(found->second)
                                        : bytes_of_spaced(found->second);
}

void JsonTokenizer::around(std::vector<int32_t>& before, std::vector<int32_t>& after) const {
  before = template_.before;
  after = template_.after;
}

void JsonTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  encode_part(text, true, nullptr, ids);
}

void JsonTokenizer::encode_part(std::string_view text, bool first,
                                const std::unordered_set<int32_t>* as_text,
                                std::vector<int32_t>& ids) const {
  if (const size_t bad = first_invalid_utf8(text); bad < text.size()) {
    throw EncodeError("a byte that is no UTF-8, which the tokenizer needs", bad);
  }
  const Lease lease(*this);
  Scratch& scratch = *lease;
  const auto on_token = [&](int32_t id) { ids.push_back(id); };
  const auto on_text = [&](std::string_view part, size_t begin) {
    const bool at_start = first && begin == 0;
    try {
      if (!normalizer_ && in_normalized_.empty()) {
        encode_words(part, at_start, scratch, ids);
        return;
      }
      const std::string normal =
          normalizer_ ? normalizer_->apply(part, scratch.regex) : std::string(part);
      const auto on_normal = [&](std::string_view smaller, size_t at) {
        encode_words(smaller, at_start && at == 0, scratch, ids);
      };
      in_normalized_.split(normal, as_text, on_token, on_normal);
    } catch (const RegexLimit& limit) {
      throw EncodeError(limit.what(), begin + std::min(limit.at(), part.size()));
    }
  };
  in_text_.split(text, as_text, on_token, on_text);
}

void JsonTokenizer::encode_words(std::string_view text, bool first, Scratch& scratch,
                                 std::vector<int32_t>& ids) const {
  const auto on_word = [&](const TextPart& word) { model_->encode(word.text, scratch.words, ids); };
  pre_tokenizer_.cut({text, first}, scratch.regex, on_word);
}

std::string JsonTokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    if (skip_special && special_.contains(id)) continue;
    if (const auto found = pieces_.find(id); found != pieces_.end())
      pieces.push_back(found->second);
  }
  std::string text;
  if (has_decoder_) {
    const Lease lease(*this);
    for (const auto& step : decoder_) step->apply(pieces, (*lease).regex);
    for (const std::string& piece : pieces) text += piece;
    return text;
  }
  for (const std::string& piece : pieces) text += (text.empty() ? "" : " ") + piece;
  return text;
}

std::unique_ptr<Tokenizer> make_json_tokenizer(const std::string& path) {
  return std::make_unique<JsonTokenizer>(path);
}

}  // namespace tessera
