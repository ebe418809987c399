#include "tessera/layout/updates/matrix_deal.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Elements of the matrices that a rank works on in a round, unless one is larger.
constexpr int64_t kRoundElements = 1 << 22;

// Above the mean by so much, a rank does not keep what it holds.
constexpr double kUnevenness = 1.02;

}  // namespace

double newton_schulz_flops(const DealtMatrix& matrix) {
  const auto shorter = static_cast<double>(matrix.shorter());
  const auto longer = static_cast<double>(std::max(matrix.rows, matrix.columns));
  // X X^T, its square, and the product with X.
  return 2 * shorter * shorter * longer + 2 * shorter * shorter * shorter +
         2 * shorter * shorter * longer;
}

MatrixDeal::MatrixDeal(std::vector<DealtTensor> tensors, const ParallelDims& dims, int64_t rank)
    : tensors_(std::move(tensors)),
      ranks_(dims.world / dims.pp),
      replica_ranks_(ranks_ / dims.dp_replicate) {
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const std::vector<int64_t>& shape = tensors_[t].shape;
    TESSERA_CHECK(shape.size() == 2 || shape.size() == 3, tensors_[t].name, " is no matrix");
    const int64_t stack = shape.size() == 3 ? shape[0] : 1;
    for (int64_t matrix = 0; matrix < stack; ++matrix) {
      for (const RowPiece& piece : tensors_[t].pieces) {
        DealtMatrix dealt{t, matrix, piece};
        dealt.rows = piece.rows();
        dealt.columns = shape.back();
        if (dealt.numel() > 0) matrices_.push_back(dealt);
      }
    }
  }
  find_holdings(dims, rank);
  deal();
  make_rounds();
}

void MatrixDeal::find_holdings(const ParallelDims& dims, int64_t rank) {
  const int64_t first = rank / ranks_ * ranks_;  // stages are neighbours
  for (const DealtTensor& tensor : tensors_) {
    std::vector<Holding>& holdings = holdings_.emplace_back();
    std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, size_t> known;
    for (int64_t place = 0; place < ranks_; ++place) {
      Box box = box_of(tensor.shape, tensor.cuts, dims, first + place);
      if (box.numel() == 0) continue;
      const auto [entry, is_new] = known.try_emplace({box.offsets, box.sizes}, holdings.size());
      if (is_new) holdings.push_back({std::move(box), {}});
      holdings[entry->second].places.push_back(place);
    }
  }
}

// The heaviest first, each to the rank that has least to do. What one rank holds whole it keeps, as
// long as that is no more than its part of all work: then nothing travels.
void MatrixDeal::deal() {
  const auto key = [this](const DealtMatrix& m) {
    return std::tuple(-newton_schulz_flops(m), tensors_[m.tensor].name, m.matrix, m.piece.begin);
  };
  std::ranges::sort(matrices_, [&](const auto& a, const auto& b) { return key(a) < key(b); });
  double total = 0;
  for (const DealtMatrix& matrix : matrices_) total += newton_schulz_flops(matrix);
  const double most = kUnevenness * total / static_cast<double>(ranks_);
  std::vector<double> load(static_cast<size_t>(ranks_), 0.0);
  std::vector<DealtMatrix*> others;
  for (DealtMatrix& matrix : matrices_) {
    const int64_t holder = whole_holder(matrix, load);
    const double work = newton_schulz_flops(matrix);
    if (holder < 0 || load[static_cast<size_t>(holder)] + work > most) {
      others.push_back(&matrix);
      continue;
    }
    matrix.owner = holder;
    load[static_cast<size_t>(holder)] += work;
  }
  for (DealtMatrix* matrix : others) {
    const auto least = std::ranges::min_element(load);
    matrix->owner = least - load.begin();
    *least += newton_schulz_flops(*matrix);
  }
}

// The least busy of those that hold all of it; -1: nobody does.
int64_t MatrixDeal::whole_holder(const DealtMatrix& matrix, const std::vector<double>& load) const {
  int64_t best = -1;
  visit_shares(matrix, [&](const Holding& holding, MatrixShare share) {
    if (share.elements != matrix.numel()) return;
    for (const int64_t place : holding.places) {
      if (best < 0 || load[static_cast<size_t>(place)] < load[static_cast<size_t>(best)]) {
        best = place;
      }
    }
  });
  return best;
}

void MatrixDeal::make_rounds() {
  std::vector<int64_t> elements(static_cast<size_t>(ranks_), 0);
  std::vector<int64_t> round(static_cast<size_t>(ranks_), 0);
  for (DealtMatrix& matrix : matrices_) {
    const auto owner = static_cast<size_t>(matrix.owner);
    if (elements[owner] > 0 && elements[owner] + matrix.numel() > kRoundElements) {
      elements[owner] = 0;
      ++round[owner];
    }
    elements[owner] += matrix.numel();
    matrix.round = round[owner];
    rounds_ = std::max(rounds_, matrix.round + 1);
  }
  std::ranges::stable_sort(matrices_, {}, &DealtMatrix::round);
}

// Calls `visit` with every holding that has a part of the matrix, and that part, of no place yet.
template <typename Visit>
void MatrixDeal::visit_shares(const DealtMatrix& matrix, Visit visit) const {
  for (const Holding& holding : holdings_[matrix.tensor]) {
    const Box& box = holding.box;
    const size_t first = box.sizes.size() - 2;  // the dimension of the rows
    if (first == 1 &&
        (matrix.matrix < box.offsets[0] || matrix.matrix >= box.offsets[0] + box.sizes[0])) {
      continue;
    }
    MatrixShare share;
    share.columns = {box.offsets[first + 1], box.offsets[first + 1] + box.sizes[first + 1]};
    share.runs =
        piece_runs(matrix.piece, {box.offsets[first], box.offsets[first] + box.sizes[first]});
    for (const PieceRun& run : share.runs) share.elements += run.rows * share.columns.size();
    if (share.elements > 0) visit(holding, std::move(share));
  }
}

std::vector<MatrixShare> MatrixDeal::holders(const DealtMatrix& matrix) const {
  std::vector<MatrixShare> shares;
  visit_shares(matrix, [&](const Holding& holding, MatrixShare share) {
    for (const int64_t place : holding.places) {
      share.place = place;
      shares.push_back(share);
    }
  });
  return shares;
}

int64_t MatrixDeal::source(const Holding& holding, int64_t owner) const {
  int64_t near = holding.places.front();
  for (const int64_t place : holding.places) {
    if (place == owner) return place;
    if (place / replica_ranks_ == owner / replica_ranks_) near = place;
  }
  return near;
}

std::vector<MatrixShare> MatrixDeal::sources(const DealtMatrix& matrix) const {
  std::vector<MatrixShare> shares;
  visit_shares(matrix, [&](const Holding& holding, MatrixShare share) {
    share.place = source(holding, matrix.owner);
    shares.push_back(std::move(share));
  });
  return shares;
}

}  // namespace tessera
