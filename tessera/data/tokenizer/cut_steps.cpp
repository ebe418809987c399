#include "tessera/data/tokenizer/cut_steps.h"

#include <algorithm>
#include <utility>

#include "tessera/data/tokenizer/byte_letters.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

// Ranges that cover a text in order, each a match or not, put together as a behaviour says. A match
// without a character cuts too. What is done is handed on as soon as nothing can change it.
class Assembly {
 public:
  Assembly(const TextPart& part, SplitBehavior behavior, EmitPart emit)
      : part_(part), behavior_(behavior), emit_(emit) {}

  // Up to the next match; `match`: it counts as one.
  void add_gap(Span range, bool match) {
    if (range.begin < range.end) add(range, match);
  }

  void add(Span range, bool match) {
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (!match) give(range);
        return;
      case SplitBehavior::kIsolated: give(range); return;
      case SplitBehavior::kContiguous: join_or_begin(range, held_ && match == was_match_); break;
      case SplitBehavior::kMergedWithPrevious:
        join_or_begin(range, held_ && match && !was_match_);
        break;
      case SplitBehavior::kMergedWithNext:
        join_or_begin(range, held_ && !match && was_match_);
        break;
    }
    was_match_ = match;
  }

  void finish() {
    if (held_) give(*held_);
  }

 private:
  void join_or_begin(Span range, bool join) {
    if (join) {
      held_->end = range.end;
      return;
    }
    if (held_) give(*held_);
    held_ = range;
  }

  void give(Span range) const {
    if (range.begin == range.end) return;
    emit_(
        {part_.text.substr(range.begin, range.end - range.begin), part_.first && range.begin == 0});
  }

  const TextPart& part_;
  SplitBehavior behavior_;
  EmitPart emit_;
  std::optional<Span> held_;
  bool was_match_ = false;
};

class PatternCut : public CutStep {
 public:
  PatternCut(SearchPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void cut(const TextPart& part, RegexScratch& scratch, EmitPart emit) const override {
    Assembly assembly(part, behavior_, emit);
    size_t done = 0;
    for (std::optional<Span> match; (match = pattern_.next(part.text, match, scratch));) {
      assembly.add_gap({done, match->begin}, invert_);
      assembly.add(*match, !invert_);
      done = match->end;
    }
    assembly.add_gap({done, part.text.size()}, invert_);
    assembly.finish();
  }

 private:
  SearchPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class CharacterCut : public CutStep {
 public:
  CharacterCut(bool (*is_kind)(uint32_t), SplitBehavior behavior)
      : is_kind_(is_kind), behavior_(behavior) {}

  void cut(const TextPart& part, RegexScratch&, EmitPart emit) const override {
    Assembly assembly(part, behavior_, emit);
    size_t done = 0;
    for (size_t at = 0; at < part.text.size();) {
      const size_t begin = at;
      if (!is_kind_(next_code_point(part.text, at))) continue;
      assembly.add_gap({done, begin}, false);
      assembly.add({begin, at}, true);
      done = at;
    }
    assembly.add_gap({done, part.text.size()}, false);
    assembly.finish();
  }

 private:
  bool (*is_kind_)(uint32_t);
  SplitBehavior behavior_;
};

class PrefixBlank : public CutStep {
 public:
  void cut(const TextPart& part, RegexScratch&, EmitPart emit) const override {
    if (part.text.starts_with(' ')) {
      emit(part);
    } else {
      const std::string text = " " + std::string(part.text);
      emit({text, part.first});
    }
  }
};

class SpellBytes : public CutStep {
 public:
  void cut(const TextPart& part, RegexScratch&, EmitPart emit) const override {
    const std::string text = spelled_in_letters(part.text);
    emit({text, part.first});
  }
};

class MarkBlanks : public CutStep {
 public:
  MarkBlanks(std::string mark, PrependScheme scheme, bool split)
      : mark_(std::move(mark)), scheme_(scheme), split_(split) {}

  void cut(const TextPart& part, RegexScratch&, EmitPart emit) const override {
    std::string text;
    text.reserve(part.text.size() + mark_.size());
    const bool asked =
        scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && part.first);
    if (asked && !part.text.starts_with(' ') && !part.text.starts_with(mark_)) text = mark_;
    for (const char c : part.text) c == ' ' ? void(text += mark_) : void(text += c);
    const TextPart marked{text, part.first};
    if (!split_) {
      emit(marked);
      return;
    }
    Assembly assembly(marked, SplitBehavior::kMergedWithNext, emit);
    size_t done = 0;
    for (size_t at; (at = text.find(mark_, done)) != std::string::npos; done = at + mark_.size()) {
      assembly.add_gap({done, at}, false);
      assembly.add({at, at + mark_.size()}, true);
    }
    assembly.add_gap({done, text.size()}, false);
    assembly.finish();
  }

 private:
  std::string mark_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace

SplitBehavior split_behavior(const JsonNode& node) {
  const std::string name = node.text();
  for (const auto& [known, behavior] :
       {std::pair{"Removed", SplitBehavior::kRemoved},
        std::pair{"Isolated", SplitBehavior::kIsolated},
        std::pair{"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
        std::pair{"MergedWithNext", SplitBehavior::kMergedWithNext},
        std::pair{"Contiguous", SplitBehavior::kContiguous}}) {
    if (name == known) return behavior;
  }
  node.refuse("\"" + name +
              "\" is not known: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

std::unique_ptr<const CutStep> cut_by_pattern(SearchPattern pattern, SplitBehavior behavior,
                                              bool invert) {
  return std::make_unique<PatternCut>(std::move(pattern), behavior, invert);
}

std::unique_ptr<const CutStep> cut_by_character(bool (*is_kind)(uint32_t), SplitBehavior behavior) {
  return std::make_unique<CharacterCut>(is_kind, behavior);
}

std::unique_ptr<const CutStep> prefix_blank() { return std::make_unique<PrefixBlank>(); }
std::unique_ptr<const CutStep> spell_bytes() { return std::make_unique<SpellBytes>(); }

std::unique_ptr<const CutStep> mark_blanks(std::string mark, PrependScheme scheme, bool split) {
  return std::make_unique<MarkBlanks>(std::move(mark), scheme, split);
}

}  // namespace tessera
