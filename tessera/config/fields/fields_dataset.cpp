#include "tessera/config/fields/field.h"

namespace tessera {

std::vector<Field> dataset_fields() {
  return {
      Field{.path = "eval_dataset",
            .type = &field_type<AnyValue>(),
            .doc = "Sets to evaluate on: {name: valid, dataloader: ...}, or a list of them, with "
                   "the keys of train_dataset. What a set leaves out is as in train_dataset; "
                   "without data of its own it is what split or valid_data_path leave to it."},
      TESSERA_FIELD(train_dataset.drop_remainder, kHonoured,
                    "A pass over the data ends before a step that it cannot fill; false: passes "
                    "follow on one another without a gap."),
      TESSERA_FIELD(train_dataset.balance_enabled, kHonoured,
                    "Micro-batches of an update are dealt out to its data-parallel ranks by their "
                    "attention work; the samples of the update are the same. Needs "
                    "create_compressed_eod_mask."),
      TESSERA_UNUSED_FIELD("train_dataset.num_parallel_workers", int64_t, "Not needed."),
      TESSERA_UNUSED_FIELD("train_dataset.prefetch_size", int64_t, "Not needed."),
      TESSERA_UNUSED_FIELD("train_dataset.numa_enable", bool, "Not needed."),
      TESSERA_UNUSED_FIELD("train_dataset.use_distribute_dataset", bool,
                           "Each rank reads what it needs from the mapped file."),

      TESSERA_FIELD(train_dataset.dataloader.type, kHonoured, "Needed. MindDataset is not built.")
          .one_of("BlendedMegatronDatasetDataLoader, HFDataLoader"),
      TESSERA_FIELD(train_dataset.dataloader.datasets_type, kHonoured,
                    "GPTDataset: sequences end to end, cut every seq_length tokens. SFTDataset: a "
                    "document of the token file is a row, as `tessera preprocess` writes "
                    "conversations.")
          .one_of("GPTDataset, SFTDataset"),
      TESSERA_FIELD(
          train_dataset.dataloader.sizes, kHonoured,
          "Samples of the train, valid and test splits; left out: all in the files. Needed "
          "with weights in data_path."),
      TESSERA_FIELD(train_dataset.dataloader.column_names, kNoEffect,
                    "All columns are always at hand."),
      TESSERA_FIELD(train_dataset.dataloader.shuffle, kHonoured,
                    "Permute the samples once more, by the data seed."),
      TESSERA_UNUSED_FIELD("train_dataset.dataloader.python_multiprocessing", bool, "Not needed."),
      TESSERA_FIELD_AS(train_dataset.dataloader.tokenizer, TextOrAny, kHonoured,
                       "Of HFDataLoader: a tokenizer.json, or a folder with one. Token files need "
                       "none.")
          .path_of_files(),
      TESSERA_UNUSED_FIELD("train_dataset.dataloader.phase", std::string, "Only train.")
          .one_of("train"),
      TESSERA_UNUSED_FIELD("train_dataset.dataloader.dataset_files", StringOrList, "MindDataset."),

      TESSERA_FIELD(train_dataset.dataloader.load_func, kHonoured,
                    "Of HFDataLoader, as all keys down to `create_compressed_eod_mask`.")
          .one_of("load_dataset"),
      TESSERA_FIELD(
          train_dataset.dataloader.path, kHonoured,
          "What the files are: json (lines, or one list), csv, text, parquet, arrow. There "
          "is no network: names of a hub are refused."),
      TESSERA_FIELD_AS(train_dataset.dataloader.data_files, std::optional<StringOrList>, kHonoured,
                       "Files, one after another; needed.")
          .path_of_files(),
      TESSERA_FIELD(train_dataset.dataloader.data_dir, kHonoured, "Folder of data_files.")
          .path_of_files(),
      TESSERA_FIELD(train_dataset.dataloader.dataset_path, kRefused, "Of load_from_disk."),
      Field{
          .path = "train_dataset.dataloader.split",
          .type = &field_type<std::optional<std::string>>(),
          .address = [](Config& config) -> void* { return &config.train_dataset.dataloader.part; },
          .effect = Effect::kHonoured,
          .doc = "Only train, which is all of the files."},
      TESSERA_FIELD_AS(train_dataset.dataloader.handler, HandlerList, kHonoured,
                       "Steps in order, {type: NAME, ARGUMENT: VALUE}: take, select, shuffle, "
                       "rename_column, remove_columns, AlpacaInstructDataHandler, PackingHandler."),
      TESSERA_FIELD(train_dataset.dataloader.chat_template, kHonoured,
                    "How conversations are written: alpaca, chatml, deepseek, gemma, llama3, "
                    "mistral, qwen; null: as the tokenizer's folder says."),
      TESSERA_FIELD_AS(train_dataset.dataloader.packing, PackingText, kHonoured,
                       "pack (or true): several records a row, first-fit; false: one.")
          .one_of("pack"),
      TESSERA_FIELD(train_dataset.dataloader.too_long, kHonoured,
                    "What becomes of a record longer than a row.")
          .one_of("cut, drop"),
      TESSERA_FIELD(train_dataset.dataloader.seq_length, kHonoured,
                    "Tokens of a row; left out: model.seq_length.")
          .at_least(0),
      TESSERA_FIELD(train_dataset.dataloader.streaming, kNoEffect,
                    "Records are always read one after another."),
      TESSERA_FIELD(train_dataset.dataloader.size, kHonoured, "Records read at most; 0: all.")
          .at_least(0),
      TESSERA_FIELD(train_dataset.dataloader.create_attention_mask, kHonoured,
                    "Records of a packed row do not see each other, whatever this says."),
      TESSERA_FIELD(train_dataset.dataloader.create_compressed_eod_mask, kHonoured, "As above."),
      TESSERA_UNUSED_FIELD("train_dataset.dataloader.eod_pad_length", int64_t,
                           "Document ends need no list of fixed length."),
      TESSERA_UNUSED_FIELD("train_dataset.dataloader.use_broadcast_data", bool,
                           "Each rank reads what it needs."),
      TESSERA_UNUSED_FIELD("train_dataset.dataloader.dataset_dir", std::string, "MindDataset."),

      TESSERA_FIELD(train_dataset.dataloader.config.seq_length, kHonoured,
                    "Tokens of a sample; needed, equal to model.seq_length.")
          .between(1, 1 << 30),
      TESSERA_FIELD_AS(train_dataset.dataloader.config.data_path, std::optional<LooseString>,
                       kHonoured, "[weight, prefix, weight, prefix, ...] or [prefix, ...].")
          .path_of_files(),
      TESSERA_FIELD_AS(train_dataset.dataloader.config.train_data_path, std::optional<LooseString>,
                       kHonoured,
                       "As data_path, of the train split alone; instead of data_path and split.")
          .path_of_files(),
      TESSERA_FIELD_AS(train_dataset.dataloader.config.valid_data_path, std::optional<LooseString>,
                       kNoEffect, "There is no evaluation.")
          .path_of_files(),
      TESSERA_FIELD_AS(train_dataset.dataloader.config.test_data_path, std::optional<LooseString>,
                       kNoEffect, "There is no evaluation.")
          .path_of_files(),
      TESSERA_FIELD_AS(train_dataset.dataloader.config.split, std::optional<SplitText>, kHonoured,
                       "Parts of train, valid and test, \"90,5,5\"; needed with data_path."),
      TESSERA_FIELD(train_dataset.dataloader.config.seed, kHonoured, "Seed of the sample order.")
          .between(0, 4294967295.0),
      TESSERA_FIELD(train_dataset.dataloader.config.num_dataset_builder_threads, kHonoured,
                    "Threads that open the token files of a blend and build their indices.")
          .at_least(1),
      TESSERA_FIELD(train_dataset.dataloader.config.path_to_cache, kHonoured,
                    "Folder of the index cache; null: beside the token file.")
          .path_of_files(),
      TESSERA_FIELD(train_dataset.dataloader.config.mmap_bin_files, kNoEffect,
                    "Token files are always mapped."),
      TESSERA_FIELD(train_dataset.dataloader.config.reset_position_ids, kHonoured,
                    "Positions restart after each EOD."),
      TESSERA_FIELD(train_dataset.dataloader.config.reset_attention_mask, kHonoured,
                    "Attention stops at document ends."),
      TESSERA_FIELD(train_dataset.dataloader.config.eod_mask_loss, kHonoured,
                    "No loss where the input is EOD."),
      TESSERA_FIELD(train_dataset.dataloader.config.create_attention_mask, kHonoured,
                    "A dense mask; it is never built, the kernel masks. Must be false with "
                    "context parallelism over packed documents."),
      TESSERA_FIELD(train_dataset.dataloader.config.create_compressed_eod_mask, kHonoured,
                    "Packed documents: attention stops at document ends."),
      TESSERA_FIELD(train_dataset.dataloader.config.eod_pad_length, kNoEffect,
                    "Document ends need no list of fixed length.")
          .between(1, 1 << 30),
      TESSERA_FIELD(train_dataset.dataloader.config.drop_last_partial_validation_sequence,
                    kNoEffect, "There is no evaluation."),
      TESSERA_FIELD(train_dataset.dataloader.config.add_extra_token_to_sequence, kHonoured,
                    "Read one token more than seq_length, the last label."),
      TESSERA_FIELD(train_dataset.dataloader.config.eod, kHonoured, "EOD token id; -1: none.")
          .at_least(-1),
      TESSERA_FIELD(train_dataset.dataloader.config.pad, kHonoured, "PAD token id; -1: none.")
          .at_least(-1),
      TESSERA_UNUSED_FIELD("train_dataset.dataloader.config.s3_cache_path",
                           std::optional<std::string>, "Files are local."),
      TESSERA_UNUSED_FIELD("use_remove_redundant_dataset", bool, "Not needed."),
      TESSERA_UNUSED_FIELD("use_distribute_dataset", bool, "Not needed."),
  };
}

}  // namespace tessera
