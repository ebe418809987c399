#pragma once

// The parts of a conversion. Each takes its keys from the old file and adds lines to the new one.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/config/static_graph/leaves.h"

namespace tessera::static_graph {

/// The new file: sections in their order, "key: value" lines in each.
class NewFile {
 public:
  /// `key` may be dotted: nested maps. A `note` becomes a comment at the end of the line.
  void add(const std::string& section, const std::string& key, const std::string& value,
           const std::string& note = "");
  std::string text() const;

 private:
  struct Line {
    std::string key, value, note;
  };
  std::vector<std::pair<std::string, std::vector<Line>>> sections_;
};

/// What all parts see and say.
struct Work {
  Work(const Value& root, std::optional<int64_t> samples) : old(root), samples(samples) {}

  Leaves old;
  NewFile file;
  std::vector<std::string> changes;  // see Conversion
  std::vector<std::string> notes;    // what is left out and changes nothing
  std::optional<int64_t> samples;    // given by the user

  // What follows from one part for others.
  int64_t ranks = 1;
  int64_t global_batch = 1;
  int64_t micro_batches = 1;
  int64_t steps = 0;               // 0: not known
  std::optional<int64_t> layers;   // of the decoder
  int64_t prediction_layers = 0;   // of multi-token prediction
  int64_t stages = 1, chunks = 1;  // of the pipeline

  void change(const Value* where, const std::string& what);
};

void find_layers(Work& work, const std::string& directory);  // before the others
void convert_checkpoint(Work& work);                         // load_checkpoint, callbacks, ...
void convert_layout(Work& work);         // parallel_config, parallel: degrees, batch, stages
void convert_training(Work& work);       // seed, steps, clipping, optimizer, lr_schedule
void convert_data(Work& work);           // train_dataset
void convert_model(Work& work);          // model.model_config
void convert_recomputation(Work& work);  // recompute_config, swap_config

/// Comments on every line that is left; what is not known is a change.
std::string comment_on_rest(Work& work);

}  // namespace tessera::static_graph
