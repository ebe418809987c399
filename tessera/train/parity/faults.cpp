#include "tessera/train/parity/faults.h"

#include <charconv>
#include <sstream>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Kind = Faults::Kind;

// What may follow a fault's name; each after a colon, the optional ones in brackets.
enum class Word { kUnit, kParameter, kRank, kStep, kMicroBatch };

struct Form {
  const char* name;
  Kind kind;
  const char* shape;  // as it is written
  std::vector<Word> words;
  size_t required;
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all{
      {"scale_gradient", Kind::kScaleGradient, ":UNIT", {Word::kUnit}, 1},
      {"skip_reduction", Kind::kSkipReduction, ":UNIT", {Word::kUnit}, 1},
      {"skip_partial", Kind::kSkipPartial, ":AXIS[:NAME]", {Word::kUnit, Word::kParameter}, 1},
      {"slice_gradient", Kind::kSliceGradient, ":UNIT", {Word::kUnit}, 1},
      {"local_vocabulary", Kind::kLocalVocabulary, "", {}, 0},
      {"swap_micro_batches", Kind::kSwapMicroBatches, "", {}, 0},
      {"drop_micro_batch", Kind::kDropMicroBatch, "[:INDEX]", {Word::kMicroBatch}, 0},
      {"unmerged_lse", Kind::kUnmergedLse, ":UNIT", {Word::kUnit}, 1},
      {"drop_key_gradient", Kind::kDropKeyGradient, ":UNIT", {Word::kUnit}, 1},
      {"contiguous_positions", Kind::kContiguousPositions, "", {}, 0},
      {"forward_splits", Kind::kForwardSplits, ":UNIT", {Word::kUnit}, 1},
      {"double_weights", Kind::kDoubleWeights, ":UNIT", {Word::kUnit}, 1},
      {"shift_labels", Kind::kShiftLabels, "", {}, 0},
      {"perturb_replica", Kind::kPerturbReplica, "[:RANK]", {Word::kRank}, 0},
      {"non_finite_loss", Kind::kNonFiniteLoss, "[:RANK[:STEP]]", {Word::kRank, Word::kStep}, 0},
  };
  return all;
}

[[noreturn]] void refuse(const std::string& text) {
  std::string list;
  for (const Form& form : forms())
    list.append(list.empty() ? "" : ", ").append(form.name).append(form.shape);
  throw ConfigError("--plant " + text + ": legal are " + list +
                    "; a UNIT is embedding, \"layer N\", \"layer N experts\" or head");
}

bool read_number(const std::string& word, int64_t& value) {
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  return error == std::errc() && rest == end && value >= 0;
}

bool read_word(const std::string& word, Word what, Faults& faults) {
  switch (what) {
    case Word::kUnit: faults.unit = word; return !word.empty();
    case Word::kParameter: faults.parameter = word; return !word.empty();
    case Word::kRank: return read_number(word, faults.rank);
    case Word::kStep: return read_number(word, faults.step);
    case Word::kMicroBatch: return read_number(word, faults.micro_batch);
  }
  return false;
}

}  // namespace

Faults parse_fault(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ':');) words.push_back(word);
  if (words.empty()) refuse(text);
  for (const Form& form : forms()) {
    if (words[0] != form.name) continue;
    Faults faults;
    faults.kind = form.kind;
    faults.text = text;
    if (form.kind == Kind::kPerturbReplica) faults.rank = 1;
    const size_t given = words.size() - 1;
    if (given < form.required || given > form.words.size()) break;
    bool good = true;
    for (size_t i = 0; i < given; ++i) good &= read_word(words[i + 1], form.words[i], faults);
    if (good) return faults;
  }
  refuse(text);
}

}  // namespace tessera
