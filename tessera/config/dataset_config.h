#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

// The sections `train_dataset` and `eval_dataset`: which tokens a run reads, and how they are made.

/// `train_dataset.dataloader.config`
struct DatasetConfig {
  int64_t seq_length = 0;  // resolved: model.seq_length when not given
  /// Flat list as written, numbers as text; prefixes are resolved. See parse_blend.
  std::optional<std::vector<std::string>> data_path;
  std::optional<std::vector<std::string>> train_data_path;
  std::optional<std::vector<std::string>> valid_data_path;
  std::optional<std::vector<std::string>> test_data_path;
  std::optional<std::string> split;  // "90,5,5"
  int64_t seed = 1234;
  int64_t num_dataset_builder_threads = 1;
  std::optional<std::string> path_to_cache;
  bool mmap_bin_files = true;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
  bool create_attention_mask = true;
  bool create_compressed_eod_mask = false;
  int64_t eod_pad_length = 128;  // most documents in a sample
  bool drop_last_partial_validation_sequence = true;
  bool add_extra_token_to_sequence = true;
  int64_t eod = -1;  // -1: none
  int64_t pad = -1;

  bool operator==(const DatasetConfig&) const = default;
};

/// A step of an HFDataLoader: its arguments as text, by name, a single value as a list of one.
struct DataHandler {
  std::string type;
  std::map<std::string, std::vector<std::string>> args;

  bool operator==(const DataHandler&) const = default;
};

struct DataloaderConfig {
  std::string type;  // BlendedMegatronDatasetDataLoader or HFDataLoader; empty: not given
  std::string datasets_type = "GPTDataset";
  std::vector<int64_t> sizes;  // samples asked of train, valid, test; empty: not given
  std::vector<std::string> column_names = {"input_ids", "labels"};
  bool shuffle = false;  // an order of (data seed) on top of the index's own
  DatasetConfig config;

  // HFDataLoader alone; token files are made of its rows before the first step.
  std::string load_func = "load_dataset";  // load_dataset, load_from_disk
  std::optional<std::string> path;         // json, csv, parquet, arrow, text
  std::optional<std::vector<std::string>> data_files;
  std::optional<std::string> data_dir;
  std::optional<std::string> dataset_path;  // of load_from_disk
  std::optional<std::string> part;          // key `split`: only train
  std::vector<DataHandler> handler;         // in the order in which they are applied
  std::optional<std::string> tokenizer;     // a folder or a tokenizer.json
  std::optional<std::string> chat_template;
  std::string packing;                      // empty: a row a conversation; pack, truncate
  std::string too_long = "cut";             // cut, drop
  int64_t seq_length = 0;                   // tokens of a row; resolved into config.seq_length
  bool streaming = false;                   // rows are read as they come; `size` of them
  int64_t size = 0;                         // rows of a stream; 0: all
  bool create_attention_mask = false;       // documents of a packed row do not see each other
  bool create_compressed_eod_mask = false;  // the same

  bool operator==(const DataloaderConfig&) const = default;
};

struct TrainDatasetConfig {
  bool drop_remainder = true;
  bool balance_enabled = false;  // deal the micro-batches of an update by their attention work
  DataloaderConfig dataloader;

  bool operator==(const TrainDatasetConfig&) const = default;
};

/// One set of `eval_dataset`, which is a single one or a list. Named in metrics and on the console.
struct EvalDatasetConfig {
  std::string name = "valid";
  DataloaderConfig dataloader;

  bool operator==(const EvalDatasetConfig&) const = default;
};

}  // namespace tessera
