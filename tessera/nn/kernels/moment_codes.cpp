#include "tessera/nn/kernels/moment_codes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/philox.h"

namespace tessera {
namespace {

// Seven decades below one; each has twice the codes of the one below it, evenly spaced.
std::array<float, 256> make_codes(bool is_signed) {
  constexpr int kDecades = 7;
  std::vector<double> numbers{0.0, 1.0};
  for (int i = 0; i < kDecades; ++i) {
    const int count = is_signed ? 1 << i : 2 << i;
    const double decade = std::pow(10.0, i - (kDecades - 1));
    for (int k = 0; k < count; ++k) {
      const double middle = 0.1 + 0.9 * (k + 0.5) / count;
      numbers.push_back(decade * middle);
      if (is_signed) numbers.push_back(-decade * middle);
    }
  }
  TESSERA_CHECK_EQ(numbers.size(), size_t{256}, "codes");
  std::ranges::sort(numbers);
  std::array<float, 256> codes{};
  std::ranges::transform(numbers, codes.begin(), [](double x) { return static_cast<float>(x); });
  return codes;
}

// The place of the largest code that is not above x, of all but the last: seven or eight steps.
unsigned below(const std::array<float, 256>& codes, float x) {
  unsigned place = 0;
  for (unsigned step = 128; step > 0; step /= 2) {
    if (place + step < 255 && codes[place + step] <= x) place += step;
  }
  return place;
}

// What codes stand for where the scale is 1.
const std::array<float, 256>& meanings(bool is_signed) {
  static const std::array<float, 256> squares = [] {
    std::array<float, 256> numbers = moment_codes(false);
    for (float& number : numbers) number *= number;
    return numbers;
  }();
  return is_signed ? moment_codes(true) : squares;
}

// One of the two codes around x, by a random number of 16 bits.
uint8_t rounded_code(const std::array<float, 256>& codes, float x, uint32_t random) {
  const unsigned place = below(codes, x);
  const float share = (x - codes[place]) / (codes[place + 1] - codes[place]);
  const float drawn = (static_cast<float>(random) + 0.5F) / 65536.0F;
  return static_cast<uint8_t>(drawn < share ? place + 1 : place);
}

// Neighbouring elements of a part that lie in one block.
struct Stretch {
  int64_t local = 0;  // place in the part
  int64_t count = 0;
  int64_t block = 0;  // place of the block
  int64_t first = 0;  // place in the whole matrix
};

template <typename Visit>
void for_each_stretch(const MatrixBlocks& blocks, Visit visit) {
  for (const BlockRun& run : blocks.runs) {
    int64_t at = run.first, block = run.block;
    const int64_t end = run.first + run.length;
    while (at < end) {
      const int64_t next = std::min(end, (at / kMomentBlock + 1) * kMomentBlock);
      visit(Stretch{run.local + at - run.first, next - at, block++, at});
      at = next;
    }
  }
}

template <typename Function>
void with_type(const at::Tensor& values, Function function) {
  if (values.scalar_type() == at::kDouble) {
    function(values.data_ptr<double>());
  } else {
    function(values.data_ptr<float>());
  }
}

// Random numbers of 16 bits, by the place in the whole matrix: a word is for two neighbours.
class RandomBits {
 public:
  RandomBits(uint64_t key, uint64_t step) : key_(key), step_(step) {}

  void fill(const Stretch& s) {
    begin_ = s.first / 2;
    words_.resize(static_cast<size_t>((s.first + s.count - 1) / 2 - begin_ + 1));
    philox_words(key_, 0, step_, static_cast<uint32_t>(begin_), static_cast<int64_t>(words_.size()),
                 words_.data());
  }
  uint32_t at(int64_t place) const {
    const uint32_t word = words_[static_cast<size_t>(place / 2 - begin_)];
    return place % 2 == 0 ? word & 0xffffU : word >> 16;
  }

 private:
  uint64_t key_, step_;
  int64_t begin_ = 0;
  std::vector<uint32_t> words_;
};

uint16_t rounded(float value, uint32_t random) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_finite = (bits & 0x7f800000U) != 0x7f800000U;
  return static_cast<uint16_t>((is_finite ? bits + random : bits) >> 16);
}

}  // namespace

const std::array<float, 256>& moment_codes(bool is_signed) {
  static const std::array<float, 256> of_signed = make_codes(true);
  static const std::array<float, 256> of_unsigned = make_codes(false);
  return is_signed ? of_signed : of_unsigned;
}

void block_maxima(const at::Tensor& values, const MatrixBlocks& blocks, const at::Tensor& maxima) {
  maxima.zero_();
  auto* out = maxima.data_ptr<float>();
  with_type(values, [&](const auto* in) {
    for_each_stretch(blocks, [&](const Stretch& s) {
      float most = out[s.block];
      for (int64_t i = s.local; i < s.local + s.count; ++i) {
        most = std::max(most, std::abs(static_cast<float>(in[i])));
      }
      out[s.block] = most;
    });
  });
}

void encode_moments(const at::Tensor& values, const MatrixBlocks& blocks, const at::Tensor& scales,
                    bool is_signed, uint64_t key, uint64_t step, const at::Tensor& codes) {
  const std::array<float, 256>& numbers = moment_codes(is_signed);
  const auto* scale = scales.const_data_ptr<float>();
  auto* out = codes.data_ptr<uint8_t>();
  RandomBits random(key, step);
  with_type(values, [&](const auto* in) {
    for_each_stretch(blocks, [&](const Stretch& s) {
      random.fill(s);
      const float divisor = scale[s.block] > 0 ? scale[s.block] : 1.0F;
      for (int64_t i = s.local; i < s.local + s.count; ++i) {
        const float x = static_cast<float>(in[i]) / divisor;
        const uint8_t code =
            rounded_code(numbers, is_signed ? x : std::sqrt(x), random.at(s.first + i - s.local));
        out[i] = !is_signed && code == 0 && in[i] > 0 ? 1 : code;
      }
    });
  });
}

void decode_moments(const at::Tensor& codes, const MatrixBlocks& blocks, const at::Tensor& scales,
                    bool is_signed, const at::Tensor& values) {
  const std::array<float, 256>& numbers = meanings(is_signed);
  const auto* scale = scales.const_data_ptr<float>();
  const auto* in = codes.const_data_ptr<uint8_t>();
  with_type(values, [&](auto* out) {
    for_each_stretch(blocks, [&](const Stretch& s) {
      for (int64_t i = s.local; i < s.local + s.count; ++i)
        out[i] = numbers[in[i]] * scale[s.block];
    });
  });
}

void round_moments(const at::Tensor& values, const MatrixBlocks& blocks, uint64_t key,
                   uint64_t step, const at::Tensor& shorts) {
  auto* out = reinterpret_cast<uint16_t*>(shorts.data_ptr<at::BFloat16>());
  RandomBits random(key, step);
  with_type(values, [&](const auto* in) {
    for_each_stretch(blocks, [&](const Stretch& s) {
      random.fill(s);
      for (int64_t i = 0; i < s.count; ++i) {
        out[s.local + i] = rounded(static_cast<float>(in[s.local + i]), random.at(s.first + i));
      }
    });
  });
}

}  // namespace tessera
