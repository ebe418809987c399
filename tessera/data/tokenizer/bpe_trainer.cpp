#include "tessera/data/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>
#include <unordered_set>

#include "tessera/data/tokenizer/byte_letters.h"

namespace tessera {

namespace {

using Pair = std::pair<int32_t, int32_t>;

uint64_t key_of(Pair pair) {
  return static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 |
         static_cast<uint32_t>(pair.second);
}

struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {  // the top of a queue is the largest
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Training {
 public:
  explicit Training(const std::unordered_map<std::string, int64_t>& counts) {
    std::array<int32_t, 256> id_of{};
    std::array<int32_t, 256> order{};
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [](int32_t byte) {
      return byte_letters()[static_cast<size_t>(byte)];  // UTF-8 sorts as code points do
    });
    for (int32_t id = 0; id < 256; ++id) {
      const int32_t byte = order[static_cast<size_t>(id)];
      id_of[static_cast<size_t>(byte)] = id;
      trained_.pieces.emplace_back(1, static_cast<char>(byte));
    }
    for (const auto& [text, count] : counts) {
      Word& word = words_.emplace_back();
      word.count = count;
      for (const char byte : text) word.ids.push_back(id_of[static_cast<uint8_t>(byte)]);
    }
    for (size_t i = 0; i < words_.size(); ++i) count_pairs(i, 1);
    for (const auto& [key, place] : pairs_) offer(key);
  }

  TrainedBpe run(int64_t vocab_size) {
    while (static_cast<int64_t>(trained_.pieces.size()) < vocab_size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const int64_t now = pairs_[key_of(best.pair)].count;
      if (now < 2) continue;
      if (now != best.count) {  // changed since it was offered
        queue_.push({now, best.pair});
        continue;
      }
      merge(best.pair);
    }
    return std::move(trained_);
  }

 private:
  struct Word {
    std::vector<int32_t> ids;
    int64_t count = 0;
  };
  struct Place {
    int64_t count = 0;
    std::unordered_set<size_t> words;
  };

  void count_pairs(size_t number, int64_t sign) {
    const Word& word = words_[number];
    for (size_t i = 0; i + 1 < word.ids.size(); ++i) {
      Place& place = pairs_[key_of({word.ids[i], word.ids[i + 1]})];
      place.count += sign * word.count;
      if (sign > 0) place.words.insert(number);
    }
  }

  void offer(uint64_t key) {
    const Pair pair{static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffff)};
    queue_.push({pairs_[key].count, pair});
  }

  void merge(Pair pair) {
    const auto id = static_cast<int32_t>(trained_.pieces.size());
    trained_.pieces.push_back(trained_.pieces[static_cast<size_t>(pair.first)] +
                              trained_.pieces[static_cast<size_t>(pair.second)]);
    trained_.merges.push_back(pair);
    const auto words = std::move(pairs_[key_of(pair)].words);
    std::unordered_set<uint64_t> changed;
    for (const size_t number : words) {
      count_pairs(number, -1);
      std::vector<int32_t>& ids = words_[number].ids;
      size_t kept = 0;
      for (size_t i = 0; i < ids.size(); ++kept) {
        const bool both = i + 1 < ids.size() && Pair{ids[i], ids[i + 1]} == pair;
        ids[kept] = both ? id : ids[i];
        i += both ? 2 : 1;
      }
      ids.resize(kept);
      count_pairs(number, 1);
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] == id || ids[i + 1] == id) changed.insert(key_of({ids[i], ids[i + 1]}));
      }
    }
    pairs_.erase(key_of(pair));
    for (const uint64_t key : changed) offer(key);
  }

  TrainedBpe trained_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Place> pairs_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

TrainedBpe train_bpe(const std::unordered_map<std::string, int64_t>& counts, int64_t vocab_size) {
  return Training(counts).run(vocab_size);
}

}  // namespace tessera
