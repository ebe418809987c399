#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/function_ref.h"
#include "tessera/data/tokenizer/json_node.h"
#include "tessera/data/tokenizer/regex.h"

namespace tessera {

/// A part of a text; `first`: it begins where the whole text does.
struct TextPart {
  std::string_view text;
  bool first = false;
};

using EmitPart = FunctionRef<void(const TextPart&)>;

/// Cuts a part into smaller ones, or changes it. Immutable.
class CutStep {
 public:
  virtual ~CutStep() = default;
  /// Calls `emit` for each part that is not empty, in order. What it hands out lives during the
  /// call.
  virtual void cut(const TextPart& part, RegexScratch& scratch, EmitPart emit) const = 0;
};

/// `pre_tokenizer` of a tokenizer.json as steps that follow on one another: ByteLevel, Split,
/// Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation, Sequence.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // leaves texts whole
  /// Throws ConfigError for what is not known.
  explicit PreTokenizer(const JsonNode& node);

  /// Calls `emit` for every word.
  void cut(const TextPart& part, RegexScratch& scratch, EmitPart emit) const {
    run(0, part, scratch, emit);
  }
  /// Words are to be spelled in byte letters (ByteLevel stands last); cut() leaves them as they
  /// are.
  bool ends_in_bytes() const { return ends_in_bytes_; }

 private:
  void add(const JsonNode& node);
  void add_byte_level(const JsonNode& node);
  void run(size_t step, const TextPart& part, RegexScratch& scratch, EmitPart emit) const;

  std::vector<std::unique_ptr<const CutStep>> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace tessera
