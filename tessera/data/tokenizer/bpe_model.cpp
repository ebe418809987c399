#include "tessera/data/tokenizer/bpe_model.h"

#include <algorithm>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/data/tokenizer/byte_letters.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

constexpr int32_t kNone = -1;
constexpr uint32_t kDirect = 0x10000;  // characters below are looked up in an array
constexpr std::string_view kMark = "\u2581";

size_t merge_count(const JsonNode& node) { return node.at("merges").value().size(); }

}  // namespace

BpeModel::BpeModel(const JsonNode& node, bool raw_bytes)
    : raw_bytes_(raw_bytes), merges_(merge_count(node)) {
  if (const auto type = node.find("type"); type && type->text() != "BPE") {
    type->refuse("\"" + type->text() + "\" is not known: BPE");
  }
  node.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
             "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto dropout = node.find("dropout"); dropout && dropout->value() != 0.0) {
    dropout->refuse("must be null: encoding is not random here");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const auto affix = node.find(name); affix && !affix->text().empty()) {
      affix->refuse("must be null: pieces with affixes are not known");
    }
  }
  if (const auto unknown = node.find("unk_token")) unknown_ = unknown->text();
  fuse_unknown_ = node.flag("fuse_unk", false);
  byte_fallback_ = node.flag("byte_fallback", false);
  ignore_merges_ = node.flag("ignore_merges", false);
  read_vocabulary(node.at("vocab"));
  read_merges(node.at("merges"));
  find_symbols();
  find_cut_mark();
}

void BpeModel::read_vocabulary(const JsonNode& node) {
  if (!node.value().is_object()) node.refuse("must be an object of pieces and ids");
  vocabulary_.reserve(node.value().size());
  for (const auto& [piece, id] : node.value().items()) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX - 1) {
      node.refuse("the id of \"" + piece + "\" must be an integer, at least 0");
    }
    vocabulary_.emplace(piece, id.get<int32_t>());
  }
}

void BpeModel::read_merges(const JsonNode& node) {
  if (!node.value().is_array()) node.refuse("must be a list of pairs");
  int32_t rank = 0;
  for (const auto& merge : node.value()) {
    const auto refuse = [&](const std::string& why) {
      node.refuse(detail::concat("merge ", rank, " ", why));
    };
    std::string left, right;
    if (merge.is_string()) {  // as older files write them
      const auto& text = merge.get_ref<const std::string&>();
      const size_t blank = text.find(' ');
      if (blank == std::string::npos) refuse("has no blank between two pieces");
      left = text.substr(0, blank);
      right = text.substr(blank + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0];
      right = merge[1];
    } else {
      refuse("is no pair of pieces");
    }
    std::optional<int32_t> ids[3];
    for (int i = 0; const std::string& piece : {left, right, left + right}) {
      ids[i] = id_of(piece);
      if (!ids[i++]) refuse("needs \"" + piece + "\", which is not in the vocabulary");
    }
    merges_.set(*ids[0], *ids[1], {rank++, *ids[2]});
  }
}

void BpeModel::find_symbols() {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    id_of_byte_[byte] = id_of(raw_bytes_ ? byte_letters()[byte] : name).value_or(kNone);
  }
  id_of_character_.assign(kDirect, kNone);
  for (const auto& [piece, id] : vocabulary_) {
    if (piece.empty()) continue;
    size_t at = 0;
    const uint32_t c = next_code_point(piece, at);
    if (at == piece.size() && c < kDirect) id_of_character_[c] = id;
    if (!ignore_merges_) continue;
    if (!raw_bytes_) {
      whole_words_.emplace(piece, id);
    } else if (const auto bytes = bytes_of_letters(piece)) {
      whole_words_.emplace(*bytes, id);
    }
  }
}

// Texts that no pre-tokenizer cut are one long word. Where no piece has the mark of blanks behind
// another character, nothing merges over that place, and the parts are encoded by themselves.
void BpeModel::find_cut_mark() {
  if (raw_bytes_ || ignore_merges_ || !id_of(std::string(kMark))) return;
  for (const auto& [piece, id] : vocabulary_) {
    size_t inner = 0;
    while (std::string_view(piece).substr(inner).starts_with(kMark)) inner += kMark.size();
    if (piece.find(kMark, inner) != std::string::npos) return;
  }
  cut_mark_ = kMark;
}

std::optional<int32_t> BpeModel::id_of(const std::string& piece) const {
  const auto found = vocabulary_.find(piece);
  if (found == vocabulary_.end()) return std::nullopt;
  return found->second;
}

void BpeModel::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (cut_mark_.empty()) {
    encode_part(word, scratch, ids);
    return;
  }
  while (!word.empty()) {
    size_t end = 0;
    while (word.substr(end).starts_with(cut_mark_)) end += cut_mark_.size();
    end = std::min(word.find(cut_mark_, end), word.size());
    encode_part(word.substr(0, end), scratch, ids);
    word.remove_prefix(end);
  }
}

void BpeModel::encode_part(std::string_view word, Scratch& scratch,
                           std::vector<int32_t>& ids) const {
  if (word.size() > WordCache::kLongestWord) {
    merge_word(word, scratch);
    ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
    return;
  }
  const uint64_t hash = WordCache::hash_of(word);
  if (scratch.words.append(word, hash, ids)) return;
  merge_word(word, scratch);
  scratch.words.put(word, hash, scratch.ids);
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

void BpeModel::merge_word(std::string_view word, Scratch& scratch) const {
  scratch.ids.clear();
  if (ignore_merges_) {
    const auto whole = whole_words_.find(std::string(word));
    if (whole != whole_words_.end()) {
      scratch.ids.push_back(whole->second);
      return;
    }
  }
  add_characters(word, scratch.ids);
  scratch.merger.merge(scratch.ids);
}

void BpeModel::add_characters(std::string_view word, std::vector<int32_t>& ids) const {
  // An unknown token is held until another one or a character of the vocabulary follows: bytes of
  // a fallback go in front of it, as in the field's library.
  bool unknown = false;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    int32_t id = kNone;
    if (raw_bytes_) {
      id = id_of_byte_[static_cast<uint8_t>(word[at++])];
    } else {
      const uint32_t c = next_code_point(word, at);
      id = c < kDirect ? id_of_character_[c]
                       : id_of(std::string(word.substr(begin, at - begin))).value_or(kNone);
    }
    if (id != kNone) {
      if (unknown) add_unknown(ids);
      unknown = false;
      ids.push_back(id);
    } else if (!byte_fallback_ || !add_bytes(word.substr(begin, at - begin), ids)) {
      if (unknown && !fuse_unknown_) add_unknown(ids);
      unknown = true;
    }
  }
  if (unknown) add_unknown(ids);
}

bool BpeModel::add_bytes(std::string_view character, std::vector<int32_t>& ids) const {
  const std::string bytes =
      raw_bytes_ ? byte_letters()[static_cast<uint8_t>(character[0])] : std::string(character);
  std::vector<int32_t> found;
  for (const char byte : bytes) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<uint8_t>(byte));
    const auto id =
        raw_bytes_ ? id_of(name).value_or(kNone) : id_of_byte_[static_cast<uint8_t>(byte)];
    if (id == kNone) return false;
    found.push_back(id);
  }
  ids.insert(ids.end(), found.begin(), found.end());
  return true;
}

void BpeModel::add_unknown(std::vector<int32_t>& ids) const {
  if (!unknown_) return;  // the character is dropped, as the field's library does
  const auto id = id_of(*unknown_);
  if (!id) throw ConfigError("model.unk_token \"" + *unknown_ + "\" is not in the vocabulary");
  ids.push_back(*id);
}

}  // namespace tessera
