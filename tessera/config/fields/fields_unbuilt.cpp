// Keys of the reference that belong to what is not built. They are known, so that a file that has
// one is told what it asks for; who builds it moves its keys to the table of their section.

#include "tessera/config/fields/field.h"

namespace tessera {
namespace {

// {what is not built, the keys that belong to it}
struct Part {
  std::string_view name;
  std::vector<std::string_view> keys;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> all = {
      {"state in memory", {"elastic.snapshot_interval", "elastic.snapshot_path"}},
      {"ranks that join while a run goes on", {"elastic.join_interval"}},
      {"optimizer states on the host", {"optimizer.swap"}},
      {"OrderedIndexDataLoader",
       {"train_dataset.dataloader.data_path", "train_dataset.dataloader.sequence_length",
        "train_dataset.dataloader.mmap", "train_dataset.dataloader.use_cache",
        "train_dataset.dataloader.cache_dir", "train_dataset.dataloader.eod_token",
        "train_dataset.dataloader.pad_token", "train_dataset.dataloader.reset_position_ids",
        "train_dataset.dataloader.reset_attention_mask", "train_dataset.dataloader.eod_mask_loss",
        "train_dataset.dataloader.create_seq_len_vector"}},
      {"streams and names of a hub, which HFDataLoader has elsewhere",
       {"train_dataset.dataloader.adaptor_config", "train_dataset.dataloader.dataset_state_dir",
        "train_dataset.dataloader.save_step", "train_dataset.dataloader.resume_step",
        "train_dataset.dataloader.batch_size", "train_dataset.dataloader.is_dynamic",
        "train_dataset.dataloader.name"}},
      {"DeepSeek-V4",
       {"model.o_groups", "model.o_lora_rank", "model.num_hash_layers",
        "model.enable_hyper_connections", "model.num_residual_streams",
        "model.mhc_sinkhorn_iterations", "model.mhc_init_gating_factor", "model.index_n_heads",
        "model.index_head_dim", "model.index_topk", "model.dsa_indexer_loss_coeff",
        "model.dsa_indexer_use_sparse_loss", "model.experimental_attention_variant",
        "model.compress_ratios", "model.csa_window_size", "model.compress_rope_theta",
        "model.csa_dense_mode", "model.apply_dsa_kernel_fusion"}},
  };
  return all;
}

}  // namespace

std::vector<Field> unbuilt_fields() {
  std::vector<Field> fields;
  for (const Part& part : parts()) {
    for (const std::string_view key : part.keys) {
      fields.push_back(TESSERA_UNUSED_FIELD(key, AnyValue, "Not built.").not_built(part.name));
    }
  }
  return fields;
}

}  // namespace tessera
