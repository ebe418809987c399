#include "tessera/data/token_split.h"

#include <algorithm>
#include <cstdlib>

#include "tessera/base/error.h"

namespace tessera {

namespace {

void append(Pieces& pieces, Range piece) {
  if (piece.size() == 0) return;
  if (!pieces.empty() && pieces.back().end == piece.begin) {
    pieces.back().end = piece.end;
  } else {
    pieces.push_back(piece);
  }
}

void check_length(int64_t seq_length, int64_t cp_degree, int64_t multiple, const char* what) {
  TESSERA_CHECK(cp_degree >= 1 && seq_length >= 1, cp_degree, " ranks, length ", seq_length);
  if (seq_length % multiple == 0) return;
  const int64_t below = seq_length / multiple * multiple;
  throw ConfigError(
      detail::concat("seq_length ", seq_length, " cannot be cut over context_parallel ", cp_degree,
                     what, ": it should be a multiple of ", multiple, ", nearest ",
                     below > 0 ? detail::concat(below, " and ") : "", below + multiple));
}

std::vector<Pieces> contiguous(int64_t s, int64_t cp) {
  std::vector<Pieces> ranks(static_cast<size_t>(cp));
  for (int64_t c = 0; c < cp; ++c) ranks[static_cast<size_t>(c)] = {{c * s / cp, (c + 1) * s / cp}};
  return ranks;
}

std::vector<Pieces> head_tail(int64_t s, int64_t cp) {
  std::vector<Pieces> ranks(static_cast<size_t>(cp));
  const int64_t chunk = s / (2 * cp);
  for (int64_t c = 0; c < cp; ++c) {
    Pieces& pieces = ranks[static_cast<size_t>(c)];
    append(pieces, {c * chunk, (c + 1) * chunk});
    append(pieces, {(2 * cp - 1 - c) * chunk, (2 * cp - c) * chunk});
  }
  return ranks;
}

// Tokens still to be given away: pieces of the row, seen end to end and closed to a circle.
class Circle {
 public:
  Circle(int64_t s, std::span<const int64_t> document_ends)
      : left_{{0, s}}, work_(static_cast<size_t>(s)) {
    int64_t place = 0;
    for (const int64_t end : document_ends) {
      for (int64_t keys = 1; place < end; ++place, ++keys) work_[static_cast<size_t>(place)] = keys;
    }
  }

  // Takes the arc of `tokens` tokens whose work is closest to a `ranks`-th of what is left. The
  // arcs beginning at every token of the circle have exactly that work on average, and from one to
  // the next it changes by no more than a document's length: one of them is as close as half of
  // that.
  Pieces take(int64_t tokens, int64_t ranks) {
    std::vector<int64_t> places;
    for (const Range& piece : left_) {
      for (int64_t place = piece.begin; place < piece.end; ++place) places.push_back(place);
    }
    const auto n = static_cast<int64_t>(places.size());
    const auto work = [&](int64_t i) {  // i < 2n
      return work_[static_cast<size_t>(places[static_cast<size_t>(i < n ? i : i - n)])];
    };
    int64_t total = 0;
    int64_t arc = 0;
    for (int64_t i = 0; i < n; ++i) {
      total += work(i);
      if (i < tokens) arc += work(i);
    }
    int64_t best = 0;
    int64_t distance = -1;
    for (int64_t begin = 0; begin < n; ++begin) {
      const int64_t off = std::abs(arc * ranks - total);
      if (distance < 0 || off < distance) {
        distance = off;
        best = begin;
      }
      arc += work(begin + tokens) - work(begin);
    }
    std::vector<int64_t> taken;
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < n; ++i) {
      const bool inside = (i >= best ? i - best : i - best + n) < tokens;
      (inside ? taken : kept).push_back(places[static_cast<size_t>(i)]);
    }
    left_ = pieces_of(kept);
    return pieces_of(taken);
  }

 private:
  static Pieces pieces_of(const std::vector<int64_t>& places) {
    Pieces pieces;
    for (const int64_t place : places) append(pieces, {place, place + 1});
    return pieces;
  }

  Pieces left_;
  std::vector<int64_t> work_;  // keys that each place of the row sees
};

int64_t most_work(const std::vector<Pieces>& ranks, std::span<const int64_t> document_ends) {
  int64_t most = 0;
  for (const Pieces& pieces : ranks) most = std::max(most, attention_work(pieces, document_ends));
  return most;
}

// Two measures (tokens, work) are shared equally among C by at most 2 (C - 1) cuts of a line
// (Alon, "Splitting necklaces", 1987); taking one arc of a circle after another needs no more.
std::vector<Pieces> by_work(int64_t s, int64_t cp, std::span<const int64_t> document_ends) {
  Circle circle(s, document_ends);
  std::vector<Pieces> ranks;
  for (int64_t left = cp; left > 0; --left) ranks.push_back(circle.take(s / cp, left));
  // Fine as the cuts are, chance can favour the coarse ones.
  if (s % (2 * cp) == 0) {
    std::vector<Pieces> coarse = head_tail(s, cp);
    if (most_work(coarse, document_ends) <= most_work(ranks, document_ends)) return coarse;
  }
  return ranks;
}

}  // namespace

std::vector<Pieces> split_row(int64_t seq_length, std::span<const int64_t> document_ends,
                              int64_t cp_degree, TokenBalance balance) {
  const bool halves = balance == TokenBalance::kHeadTail;
  check_length(seq_length, cp_degree, halves ? 2 * cp_degree : cp_degree,
               halves ? " head-tail" : "");
  if (cp_degree == 1) return {{{0, seq_length}}};
  switch (balance) {
    case TokenBalance::kContiguous: return contiguous(seq_length, cp_degree);
    case TokenBalance::kHeadTail: return head_tail(seq_length, cp_degree);
    case TokenBalance::kByWork: return by_work(seq_length, cp_degree, document_ends);
  }
  TESSERA_CHECK(false, "token balance ", balance);
  return {};
}

std::vector<Pieces> split_pieces(const Pieces& pieces, int64_t parts) {
  int64_t places = 0;
  for (const Range& piece : pieces) places += piece.size();
  if (places % parts != 0) {
    throw ConfigError(detail::concat(places, " places cannot be cut into ", parts, " equal runs"));
  }
  const int64_t length = places / parts;
  std::vector<Pieces> runs(static_cast<size_t>(parts));
  size_t run = 0;
  int64_t room = length;
  for (Range piece : pieces) {
    while (piece.size() > 0) {
      const int64_t taken = std::min(room, piece.size());
      append(runs[run], {piece.begin, piece.begin + taken});
      piece.begin += taken;
      room -= taken;
      if (room == 0 && ++run < runs.size()) room = length;
    }
  }
  return runs;
}

int64_t attention_work(const Pieces& pieces, std::span<const int64_t> document_ends) {
  const auto triangle = [](int64_t n) { return n * (n + 1) / 2; };
  int64_t work = 0;
  for (const Range& piece : pieces) {
    int64_t begin = 0;
    for (const int64_t end : document_ends) {
      const int64_t from = std::max(begin, piece.begin);
      const int64_t to = std::min(end, piece.end);
      if (from < to) work += triangle(to - begin) - triangle(from - begin);
      begin = end;
    }
  }
  return work;
}

}  // namespace tessera
