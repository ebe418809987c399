// Rules of train_dataset.

#include <algorithm>

#include "tessera/config/blend.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

constexpr std::string_view kLoader = "train_dataset.dataloader.";
constexpr std::string_view kConfig = "train_dataset.dataloader.config.";

std::string in_config(std::string_view name) { return std::string(kConfig) + std::string(name); }

void check_blend(Checker& check, const std::string& path,
                 const std::optional<std::vector<std::string>>& list) {
  if (!list) return;
  std::string problem;
  const Blend blend = parse_blend(*list, problem);
  if (!problem.empty()) {
    check.error(path, problem);
    return;
  }
  for (const std::string& prefix : blend.prefixes) {
    if (prefix.starts_with("s3://")) {
      check.error(path, "files must be local, " + prefix + " is not");
      return;
    }
  }
  // A share of the files' own lengths would make one of them decide how long all are read.
  const std::string sizes = std::string(kLoader) + "sizes";
  if (!blend.weights.empty() && check.config.train_dataset.dataloader.sizes.empty()) {
    check.error(path, "has weights, which need the number of samples: give " + sizes +
                          " (training.steps x training.global_batch_size, or more)");
  }
}

void check_sources(Checker& check) {
  const DatasetConfig& d = check.config.train_dataset.dataloader.config;
  const std::string data = in_config("data_path");
  const std::string split = in_config("split");
  check_blend(check, data, d.data_path);
  check_blend(check, in_config("train_data_path"), d.train_data_path);
  if (!d.data_path && !d.train_data_path) {
    check.error(data, "or train_data_path is needed");
  } else if (d.data_path && (d.train_data_path || d.valid_data_path || d.test_data_path)) {
    check.error(data, "excludes train_data_path, valid_data_path and test_data_path");
  }
  if (d.data_path && !d.split) {
    check.error(split, "is needed with data_path, as \"1,0,0\"");
  } else if (d.split && !d.data_path && d.train_data_path) {
    check.error(split, "excludes train_data_path");
  } else if (d.split) {
    std::string problem;
    const std::vector<double> parts = parse_split(*d.split, problem);
    if (problem.empty() && !(parts.front() > 0)) {
      problem = "must leave something for training, the first part";
    }
    if (!problem.empty()) check.error(split, problem);
  }
}

void check_tokens(Checker& check) {
  const DatasetConfig& d = check.config.train_dataset.dataloader.config;
  const bool model = check.model_ok && check.good({"model.vocab_size"});
  for (const auto& [name, id] : {std::pair{"eod", d.eod}, std::pair{"pad", d.pad}}) {
    if (model && id >= check.config.model.vocab_size) {
      check.error(in_config(name), "must be below vocab_size (" +
                                       std::to_string(check.config.model.vocab_size) + ")");
    }
  }
  // Rows say themselves where their documents end.
  if (d.eod >= 0 || check.config.train_dataset.dataloader.datasets_type == "SFTDataset") return;
  for (const auto& [name, asked] :
       {std::pair{"reset_position_ids", d.reset_position_ids},
        std::pair{"reset_attention_mask", d.reset_attention_mask},
        std::pair{"eod_mask_loss", d.eod_mask_loss},
        std::pair{"create_compressed_eod_mask", d.create_compressed_eod_mask}}) {
    if (asked) {
      check.error(in_config("eod"), "must be the EOD token's id with " + std::string(name));
      return;
    }
  }
}

void check_length(Checker& check) {
  const DatasetConfig& d = check.config.train_dataset.dataloader.config;
  const std::string path = in_config("seq_length");
  if (!check.given(path) && d.seq_length == 0 &&
      check.config.train_dataset.dataloader.type != "HFDataLoader") {
    check.error(path, "is needed");
  } else if (check.model_ok && check.good({path, "model.seq_length"}) &&
             d.seq_length != check.config.model.seq_length) {
    check.error("model.seq_length",
                "must be the data's seq_length (" + std::to_string(d.seq_length) + ")",
                std::to_string(d.seq_length));
  }
}

void check_hf_files(Checker& check) {
  const DataloaderConfig& loader = check.config.train_dataset.dataloader;
  const auto key = [](std::string_view name) { return std::string(kLoader) + std::string(name); };
  static const std::vector<std::string> kKinds = {"json", "csv", "text", "parquet", "arrow"};
  if (!loader.path) {
    check.error(key("path"), "is needed: json, csv, text, parquet or arrow");
  } else if (std::ranges::find(kKinds, *loader.path) == kKinds.end()) {
    check.error(key("path"),
                "must be json, csv, text, parquet or arrow, of files that data_files names: there "
                "is no network to load \"" +
                    *loader.path + "\" from");
  }
  if (!loader.data_files || loader.data_files->empty()) {
    check.error(key("data_files"), "is needed: the files to read");
  }
  if (!loader.packing.empty() && loader.packing != "pack") {
    check.error(key("packing"), "must be pack, true or false: conversations are not cut in pieces",
                loader.packing);
  }
  if (loader.part && *loader.part != "train") {
    check.error(key("split"), "must be train: a file has one part");
  }
  const bool told_by_handler = std::ranges::any_of(loader.handler, [](const DataHandler& handler) {
    return handler.args.contains("tokenizer");
  });
  if (!loader.tokenizer && !told_by_handler) {
    check.error(key("tokenizer"), "is needed: a tokenizer.json or its folder");
  }
}

}  // namespace

void check_dataset(Checker& check) {
  const DataloaderConfig& loader = check.config.train_dataset.dataloader;
  const std::string type = std::string(kLoader) + "type";
  if (!check.good({type})) return;
  if (loader.type.empty()) {
    check.error(type, "is needed: BlendedMegatronDatasetDataLoader or HFDataLoader");
    return;
  }
  static const std::vector<std::string> kColumns = {
      "input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len", "attention_mask"};
  for (size_t i = 0; i < loader.column_names.size(); ++i) {
    if (std::ranges::find(kColumns, loader.column_names[i]) == kColumns.end()) {
      check.error_at(std::string(kLoader) + "column_names", static_cast<int64_t>(i),
                     loader.column_names[i],
                     "must be one of input_ids, labels, loss_mask, position_ids, actual_seq_len, "
                     "attention_mask");
    }
  }
  if (loader.sizes.size() > 3) {
    check.error(std::string(kLoader) + "sizes", "must be at most three: train, valid, test");
  } else if (std::ranges::any_of(loader.sizes, [](int64_t n) { return n < 0; })) {
    check.error(std::string(kLoader) + "sizes", "must not be negative");
  } else if (!loader.sizes.empty() && loader.sizes[0] == 0) {
    check.error(std::string(kLoader) + "sizes", "must leave samples for training, the first");
  }
  if (check.config.train_dataset.balance_enabled && !loader.config.create_compressed_eod_mask) {
    check.error("train_dataset.balance_enabled",
                "needs create_compressed_eod_mask: without documents all samples are equal work");
  }
  loader.type == "HFDataLoader" ? check_hf_files(check) : check_sources(check);
  check_tokens(check);
  if (check.good({in_config("seq_length")})) check_length(check);
}

}  // namespace tessera
