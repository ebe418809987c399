#include "tessera/checkpoint/weight_source.h"

#include <ATen/ATen.h>

#include <map>

#include "tessera/base/error.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/published_weights.h"

namespace tessera {

namespace {

class CheckpointSource : public WeightSource {
 public:
  explicit CheckpointSource(CheckpointReader& reader) : reader_(reader) {}
  explicit CheckpointSource(std::unique_ptr<CheckpointReader> reader)
      : own_(std::move(reader)), reader_(*own_) {}

  ElementType type(const ParamSpec& spec) const override { return stored(spec).dtype; }
  at::Tensor read(const ParamSpec& spec, const Box& box) override {
    const StoredTensor& tensor = stored(spec);
    at::Tensor piece = at::empty(box.sizes, at::TensorOptions().dtype(scalar_type(tensor.dtype)));
    reader_.read_box(tensor, box, piece);
    return piece;
  }

 private:
  const StoredTensor& stored(const ParamSpec& spec) const {
    return reader_.manifest().weights.at(spec.name);
  }

  std::unique_ptr<CheckpointReader> own_;
  CheckpointReader& reader_;
};

class PublishedSource : public WeightSource {
 public:
  PublishedSource(const std::filesystem::path& folder, const std::vector<ParamSpec>& model)
      : weights_(folder, model) {}
  ElementType type(const ParamSpec& spec) const override { return weights_.type(spec.name); }
  at::Tensor read(const ParamSpec& spec, const Box& box) override {
    return weights_.read_box(spec.name, box, scalar_type(type(spec)));
  }

 private:
  HfWeights weights_;
};

class MergedSource : public WeightSource {
 public:
  MergedSource(WeightSource& base, WeightSource& adapters, const ModelConfig& model)
      : base_(base),
        adapters_(adapters),
        scale_(static_cast<double>(model.lora.lora_alpha) /
               static_cast<double>(model.lora.lora_rank)) {
    for (ParamSpec& spec : select_rows(model_spec(model), WeightRows::kAdapters)) {
      std::vector<ParamSpec>& both = of_matrix_[spec.adapts];  // A, then B
      both.push_back(std::move(spec));
    }
  }

  ElementType type(const ParamSpec& spec) const override { return base_.type(spec); }
  at::Tensor read(const ParamSpec& spec, const Box& box) override {
    const at::Tensor weight = base_.read(spec, box);
    const auto adapter = of_matrix_.find(spec.name);
    if (adapter == of_matrix_.end()) return weight;
    const ParamSpec& a = adapter->second.at(0);
    const ParamSpec& b = adapter->second.at(1);
    const int64_t rank = a.shape[0];
    const at::Tensor a_RI =
        adapters_.read(a, {{0, box.offsets[1]}, {rank, box.sizes[1]}}).to(at::kDouble);
    const at::Tensor b_OR =
        adapters_.read(b, {{box.offsets[0], 0}, {box.sizes[0], rank}}).to(at::kDouble);
    return weight.to(at::kDouble).add_(b_OR.mm(a_RI), scale_);
  }

 private:
  WeightSource& base_;
  WeightSource& adapters_;
  double scale_;
  std::map<std::string, std::vector<ParamSpec>> of_matrix_;
};

}  // namespace

std::unique_ptr<WeightSource> source_of_checkpoint(CheckpointReader& reader) {
  return std::make_unique<CheckpointSource>(reader);
}

std::unique_ptr<WeightSource> source_at(const std::filesystem::path& path,
                                        const std::vector<ParamSpec>& model) {
  if (holds_published_weights(path)) return std::make_unique<PublishedSource>(path, model);
  auto reader = std::make_unique<CheckpointReader>(checkpoints_at(path).folders.front());
  const std::string report = compare_with_model(reader->manifest(), model);
  if (!report.empty()) {
    throw CheckpointError(reader->folder().string() + ": does not fit the model:" + report);
  }
  return std::make_unique<CheckpointSource>(std::move(reader));
}

std::unique_ptr<WeightSource> merged_source(WeightSource& base, WeightSource& adapters,
                                            const ModelConfig& model) {
  return std::make_unique<MergedSource>(base, adapters, model);
}

}  // namespace tessera
