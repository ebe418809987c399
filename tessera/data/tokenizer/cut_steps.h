#pragma once

#include <memory>
#include <string>

#include "tessera/data/tokenizer/pre_tokenizer.h"
#include "tessera/data/tokenizer/search_pattern.h"

namespace tessera {

/// What becomes of the matches of a split.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Throws ConfigError for an unknown one.
SplitBehavior split_behavior(const JsonNode& node);

/// `invert`: what lies between the matches is what is looked for.
std::unique_ptr<const CutStep> cut_by_pattern(SearchPattern pattern, SplitBehavior behavior,
                                              bool invert);
/// Every character of the kind is a match.
std::unique_ptr<const CutStep> cut_by_character(bool (*is_kind)(uint32_t), SplitBehavior behavior);

/// A blank in front, unless there is one.
std::unique_ptr<const CutStep> prefix_blank();
/// Every byte written as its letter.
std::unique_ptr<const CutStep> spell_bytes();

enum class PrependScheme { kAlways, kFirst, kNever };

/// Blanks become `mark`, which `scheme` also puts in front; `split` cuts in front of every mark.
std::unique_ptr<const CutStep> mark_blanks(std::string mark, PrependScheme scheme, bool split);

}  // namespace tessera
