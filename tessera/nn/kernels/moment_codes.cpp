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

// The number between two neighbouring codes at which the nearer one changes.
std::array<float, 255> make_limits(const std::array<float, 256>& codes) {
  std::array<float, 255> limits{};
  for (size_t i = 0; i < limits.size(); ++i) limits[i] = 0.5F * (codes[i] + codes[i + 1]);
  return limits;
}

const std::array<float, 255>& limits_of(bool is_signed) {
  static const std::array<float, 255> of_signed = make_limits(moment_codes(true));
  static const std::array<float, 255> of_unsigned = make_limits(moment_codes(false));
  return is_signed ? of_signed : of_unsigned;
}

// How many limits lie below x: 255 of them in eight steps.
uint8_t nearest(const std::array<float, 255>& limits, float x) {
  unsigned place = 0;
  for (unsigned step = 128; step > 0; step /= 2) {
    if (limits[place + step - 1] < x) place += step;
  }
  return static_cast<uint8_t>(place);
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
                    bool is_signed, const at::Tensor& codes) {
  const std::array<float, 255>& limits = limits_of(is_signed);
  const auto* scale = scales.const_data_ptr<float>();
  auto* out = codes.data_ptr<uint8_t>();
  with_type(values, [&](const auto* in) {
    for_each_stretch(blocks, [&](const Stretch& s) {
      const float divisor = scale[s.block] > 0 ? scale[s.block] : 1.0F;
      for (int64_t i = s.local; i < s.local + s.count; ++i) {
        const uint8_t code = nearest(limits, static_cast<float>(in[i]) / divisor);
        out[i] = !is_signed && code == 0 && in[i] > 0 ? 1 : code;
      }
    });
  });
}

void decode_moments(const at::Tensor& codes, const MatrixBlocks& blocks, const at::Tensor& scales,
                    bool is_signed, const at::Tensor& values) {
  const std::array<float, 256>& numbers = moment_codes(is_signed);
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
  std::vector<uint32_t> words;
  with_type(values, [&](const auto* in) {
    for_each_stretch(blocks, [&](const Stretch& s) {
      // A word is for two neighbours of the whole matrix.
      const int64_t begin = s.first / 2;
      words.resize(static_cast<size_t>((s.first + s.count - 1) / 2 - begin + 1));
      philox_words(key, 0, step, static_cast<uint32_t>(begin), static_cast<int64_t>(words.size()),
                   words.data());
      for (int64_t i = 0; i < s.count; ++i) {
        const int64_t place = s.first + i;
        const uint32_t word = words[static_cast<size_t>(place / 2 - begin)];
        const uint32_t random = place % 2 == 0 ? word & 0xffffU : word >> 16;
        out[s.local + i] = rounded(static_cast<float>(in[s.local + i]), random);
      }
    });
  });
}

}  // namespace tessera
