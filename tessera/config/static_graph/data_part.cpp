// train_dataset, load_checkpoint and what callbacks say of checkpoints.

#include "tessera/config/fields/field.h"
#include "tessera/config/static_graph/parts.h"

namespace tessera::static_graph {
namespace {

constexpr const char* kOld = "train_dataset.data_loader";

// Steps of HFDataLoader name the tokenizer by a dict of their own; here the loader has it, by its
// folder.
void convert_handlers(Work& work, Value handlers) {
  const Value* folder = work.old.peek("pretrained_model_dir");
  bool tokenizes = false;
  std::string own;
  const auto strip = [&](Value& step) {
    Value* tokenizer = step.find("tokenizer");
    if (tokenizer == nullptr || tokenizer->kind != Value::Kind::kMap) return;
    tokenizes = true;
    if (const Value* named = tokenizer->find("pretrained_model_dir")) own = flow(*named);
    const Value* side = tokenizer->find("padding_side");
    if (side != nullptr && side->text != "right") {
      work.change(side, "a tokenizer that pads on the " + side->text + "; here rows end with pads");
    }
    std::erase_if(step.entries, [](const Value::Entry& entry) { return entry.key == "tokenizer"; });
  };
  if (handlers.kind == Value::Kind::kMap) strip(handlers);
  for (Value& step : handlers.items) strip(step);
  work.file.add("train_dataset", "dataloader.handler", flow(handlers));
  if (!tokenizes) return;
  if (own.empty() && folder != nullptr && !folder->text.empty()) own = flow(*folder);
  if (own.empty()) {
    work.change(&handlers, "the tokenizer's folder is not known: write dataloader.tokenizer");
  } else {
    work.file.add("train_dataset", "dataloader.tokenizer", own);
  }
}

// What HFDataLoader reads from files; other names are a hub's.
bool is_kind_of_file(const std::string& name) {
  for (const char* kind : {"json", "csv", "text", "parquet", "arrow"}) {
    if (name == kind) return true;
  }
  return false;
}

// Copies a map key by key; keys that the new form does not know are changes.
void copy_loader(Work& work, const Value& map, const std::string& inner) {
  for (const Value::Entry& entry : map.entries) {
    if (entry.value.is_null()) continue;
    const std::string key = inner.empty() ? entry.key : inner + "." + entry.key;
    const std::string section = "train_dataset.dataloader" + (inner.empty() ? "" : "." + inner);
    const std::string path = section + "." + canonical_key(section, entry.key);
    if (entry.key == "dataset_dir" && inner.empty()) {
      work.file.add("train_dataset", "dataloader.dataset_files", flow(entry.value));
    } else if (is_section(path) && entry.value.kind == Value::Kind::kMap) {
      copy_loader(work, entry.value, key);
    } else if (key == "handler") {
      convert_handlers(work, entry.value);
    } else if (find_field(path) == nullptr) {
      work.change(&entry.value, std::string(kOld) + "." + key + " has no counterpart");
    } else {
      work.file.add("train_dataset", "dataloader." + key, flow(entry.value));
    }
  }
}

}  // namespace

void convert_data(Work& work) {
  Leaves& old = work.old;
  const Value* loader = old.take(kOld);
  if (loader == nullptr) {
    work.change(nullptr, "the file has no train_dataset.data_loader");
    return;
  }
  copy_loader(work, *loader, "");
  const Value* type = loader->find("type");
  if (type != nullptr && type->text == "HFDataLoader" &&
      loader->find("create_compressed_eod_mask") == nullptr) {
    work.file.add("train_dataset", "dataloader.create_compressed_eod_mask", "false");
  }
  const Value* path = loader->find("path");
  if (type != nullptr && type->text == "HFDataLoader" && path != nullptr &&
      !is_kind_of_file(path->text)) {
    work.change(path, path->text +
                          " is a name of a hub, and there is no network: download it and "
                          "write path (json, ...) and data_files");
  }
  const Value* columns = old.take("train_dataset.input_columns");
  if (columns != nullptr) {
    work.file.add("train_dataset", "dataloader.column_names", flow(*columns));
  }
  const Value* used = old.take("train_dataset.construct_args_key");
  if (used != nullptr && columns != nullptr && used->items.size() < columns->items.size()) {
    work.change(used,
                "construct_args_key leaves out columns, whose masks were not used; here all "
                "columns are");
  }
  for (const char* key :
       {"num_parallel_workers", "drop_remainder", "numa_enable", "prefetch_size"}) {
    if (const Value* value = old.take(std::string("train_dataset.") + key)) {
      work.file.add("train_dataset", key, flow(*value));
    }
  }
  if (const Value* value = old.take("train_dataset.python_multiprocessing")) {
    work.file.add("train_dataset", "dataloader.python_multiprocessing", flow(*value));
  }
}

void convert_checkpoint(Work& work) {
  Leaves& old = work.old;
  const std::string load = old.take_text("load_checkpoint");
  const std::string pretrained = old.take_text("pretrained_model_dir");
  const Value* format = old.take("load_ckpt_format");
  const bool resumes = old.take_bool("resume_training", false);
  if (!load.empty()) {
    work.file.add("checkpoint", "load_path", flow(*old.peek("load_checkpoint")));
    work.file.add("checkpoint", "no_load_optim", resumes ? "false" : "true");
    if (format != nullptr && format->text == "ckpt") {
      work.change(format,
                  "load_ckpt_format: ckpt files cannot be read; load_checkpoint must name a "
                  "Hugging Face folder or a checkpoint of this program");
    }
  } else if (!pretrained.empty()) {
    work.file.add("checkpoint", "load_path", flow(*old.peek("pretrained_model_dir")),
                  "a Hugging Face folder: keys of the model that are not below come from it");
    work.file.add("checkpoint", "no_load_optim", "true");
  }

  const Value* redundancy = old.take("remove_redundancy");
  const Value* callbacks = old.take("callbacks");
  const Value* saver = nullptr;
  for (size_t i = 0; callbacks != nullptr && i < callbacks->items.size(); ++i) {
    const Value& callback = callbacks->items[i];
    const Value* type = callback.find("type");
    const std::string name = type == nullptr ? "" : type->text;
    if (name == "CheckpointMonitor") {
      saver = &callback;
    } else if (name == "MaxLogitsMonitor") {
      work.file.add("", "callbacks", "[" + flow(callback) + "]");
    } else if (name == "TopkBiasBalanceCallback") {
      const Value* bias = old.peek("model.model_config.moe_router_enable_expert_bias");
      if (bias != nullptr && parse_bool(bias->text) == false) {
        work.change(&callback, "TopkBiasBalanceCallback without moe_router_enable_expert_bias");
      }
    } else if (name != "MFLossMonitor") {
      work.notes.push_back(line_of(callback) + ": the callback " + name + " (no counterpart)");
    }
  }
  work.file.add("checkpoint", "enable_save", saver != nullptr ? "true" : "false");
  if (redundancy != nullptr) work.file.add("checkpoint", "remove_redundancy", flow(*redundancy));
  if (saver == nullptr) return;
  for (const Value::Entry& entry : saver->entries) {
    const std::string& key = entry.key;
    if (key == "prefix" || key == "async_save") {
      work.file.add("checkpoint", key, flow(entry.value));
    } else if (key == "remove_redundancy" && redundancy == nullptr) {
      work.file.add("checkpoint", key, flow(entry.value));
    } else if (key == "save_checkpoint_steps") {
      work.file.add("checkpoint", "save_interleaved_steps", flow(entry.value));
    } else if (key == "keep_checkpoint_max") {
      work.file.add("checkpoint", "save_max", flow(entry.value));
    } else if (key == "save_optimizer") {
      work.file.add("checkpoint", "no_save_optim",
                    parse_bool(entry.value.text) == false ? "true" : "false");
    } else if (key == "checkpoint_format" && entry.value.text == "ckpt") {
      work.change(&entry.value, "checkpoint_format: ckpt files are not written; safetensors are");
    } else if (key == "integrated_save" && parse_bool(entry.value.text) == true) {
      work.change(&entry.value,
                  "integrated_save: a checkpoint is always of parts; `tessera export` "
                  "joins them");
    }
  }
}

}  // namespace tessera::static_graph
