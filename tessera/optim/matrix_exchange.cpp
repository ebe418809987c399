#include "tessera/optim/matrix_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace tessera {

void MatrixExchange::Message::finish(int64_t ranks) {
  std::ranges::stable_sort(parts, {}, &Part::peer);
  splits.assign(static_cast<size_t>(ranks), 0);
  int64_t offset = 0;
  for (Part& part : parts) {
    part.offset = offset;
    offset += part.share.elements;
    splits[static_cast<size_t>(part.peer)] += part.share.elements;
  }
}

int64_t MatrixExchange::Message::elements() const {
  return std::accumulate(splits.begin(), splits.end(), int64_t{0});
}

MatrixExchange::MatrixExchange(MatrixDeal deal, std::vector<ShardedParam*> params,
                               ProcessGroup stage)
    : deal_(std::move(deal)),
      params_(std::move(params)),
      stage_(std::move(stage)),
      rounds_(static_cast<size_t>(deal_.rounds())) {
  const int64_t me = stage_.rank();
  for (size_t i = 0; i < deal_.matrices().size(); ++i) {
    const DealtMatrix& matrix = deal_.matrices()[i];
    Round& round = rounds_[static_cast<size_t>(matrix.round)];
    const bool is_mine = matrix.owner == me;
    if (is_mine) round.mine.push_back(i);
    for (MatrixShare& share : deal_.sources(matrix)) {
      const int64_t place = share.place;
      if (is_mine && place != me) round.taken.parts.push_back({i, place, std::move(share)});
      if (!is_mine && place == me) round.given.parts.push_back({i, matrix.owner, std::move(share)});
    }
    for (MatrixShare& share : deal_.holders(matrix)) {
      const int64_t place = share.place;
      if (is_mine && place == me) {
        round.own.push_back({i, me, std::move(share)});
      } else if (is_mine) {
        round.returned.parts.push_back({i, place, std::move(share)});
      } else if (place == me) {
        round.received.parts.push_back({i, matrix.owner, std::move(share)});
      }
    }
  }
  for (Round& round : rounds_) {
    for (Message* message : {&round.given, &round.taken, &round.returned, &round.received}) {
      message->finish(deal_.ranks());
    }
  }
}

// Every run of a part with its rows in the message, [rows, columns].
void MatrixExchange::for_each_run(const Part& part, const at::Tensor& buffer, const Visit& visit) {
  const int64_t columns = part.share.columns.size();
  int64_t at = part.offset;
  for (const PieceRun& run : part.share.runs) {
    visit(run, buffer.narrow(0, at, run.rows * columns).view({run.rows, columns}));
    at += run.rows * columns;
  }
}

// The rows of a run in this rank's box of the parameter.
at::Tensor MatrixExchange::rows_of(const at::Tensor& tensor, const Part& part,
                                   const PieceRun& run) const {
  const DealtMatrix& matrix = deal_.matrices()[part.matrix];
  const Box& box = params_[matrix.tensor]->box;
  const at::Tensor rows =
      tensor.dim() == 3 ? tensor.select(0, matrix.matrix - box.offsets[0]) : tensor;
  const int64_t first = box.offsets[static_cast<size_t>(tensor.dim() - 2)];
  return rows.narrow(0, run.in_matrix - first, run.rows);
}

MatrixExchange::Transfer MatrixExchange::start(const Message& sent, const at::Tensor& buffer,
                                               const Message& received) const {
  Transfer transfer{buffer, at::empty({received.elements()}, buffer.options()), {}};
  transfer.work = stage_.all_to_all(transfer.out, transfer.in, received.splits, sent.splits);
  return transfer;
}

MatrixExchange::Transfer MatrixExchange::start_gather(const Round& round) const {
  const at::Tensor buffer = at::empty({round.given.elements()}, params_.front()->value.options());
  for (const Part& part : round.given.parts) {
    const at::Tensor& grad = params_[deal_.matrices()[part.matrix].tensor]->grad;
    for_each_run(part, buffer, [&](const PieceRun& run, at::Tensor rows) {
      rows.copy_(rows_of(grad, part, run));
    });
  }
  return start(round.given, buffer, round.taken);
}

// Returns what is to be handed back.
at::Tensor MatrixExchange::iterate_round(const Round& round, const at::Tensor& gathered,
                                         const Iterate& iterate, const Apply& apply) const {
  const at::Tensor results =
      at::empty({round.returned.elements()}, params_.front()->value.options());
  for (const size_t i : round.mine) {
    const DealtMatrix& matrix = deal_.matrices()[i];
    const ShardedParam& param = *params_[matrix.tensor];
    const at::Tensor whole = at::empty({matrix.rows, matrix.columns}, results.options());
    const auto rows_in_whole = [&](const Part& part, const PieceRun& run) {
      return whole.narrow(0, run.in_piece, run.rows)
          .narrow(1, part.share.columns.begin, part.share.columns.size());
    };
    for (const Part& part : round.own) {
      if (part.matrix != i) continue;
      for (const PieceRun& run : part.share.runs) {
        rows_in_whole(part, run).copy_(rows_of(param.grad, part, run));
      }
    }
    for (const Part& part : round.taken.parts) {
      if (part.matrix != i) continue;
      for_each_run(part, gathered, [&](const PieceRun& run, const at::Tensor& rows) {
        rows_in_whole(part, run).copy_(rows);
      });
    }
    iterate(matrix, whole);
    for (const Part& part : round.own) {
      if (part.matrix != i) continue;
      for (const PieceRun& run : part.share.runs) {
        apply(matrix, rows_of(param.value, part, run), rows_in_whole(part, run));
      }
    }
    for (const Part& part : round.returned.parts) {
      if (part.matrix != i) continue;
      for_each_run(part, results, [&](const PieceRun& run, at::Tensor rows) {
        rows.copy_(rows_in_whole(part, run));
      });
    }
  }
  return results;
}

void MatrixExchange::finish(const Round& round, Transfer transfer, const Apply& apply) const {
  transfer.work.wait();
  for (const Part& part : round.received.parts) {
    const DealtMatrix& matrix = deal_.matrices()[part.matrix];
    const at::Tensor& value = params_[matrix.tensor]->value;
    for_each_run(part, transfer.out, [&](const PieceRun& run, const at::Tensor& rows) {
      apply(matrix, rows_of(value, part, run), rows);
    });
  }
}

void MatrixExchange::run(const Iterate& iterate, const Apply& apply) const {
  if (rounds_.empty()) return;
  Transfer next = start_gather(rounds_.front()), back;
  for (size_t r = 0; r < rounds_.size(); ++r) {
    const Round& round = rounds_[r];
    Transfer gather = std::move(next);
    gather.work.wait();
    gather.in.reset();
    if (r + 1 < rounds_.size()) next = start_gather(rounds_[r + 1]);
    const at::Tensor results = iterate_round(round, gather.out, iterate, apply);
    gather = {};
    Transfer started = start(round.returned, results, round.received);
    if (r > 0) finish(rounds_[r - 1], std::move(back), apply);
    back = std::move(started);
  }
  finish(rounds_.back(), std::move(back), apply);
}

}  // namespace tessera
