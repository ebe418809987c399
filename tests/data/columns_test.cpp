#include "tessera/data/columns.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Ids = std::vector<int64_t>;
using Mask = std::vector<uint8_t>;

constexpr int64_t kEod = 2;
constexpr int64_t kPad = 1;

ColumnOptions with_eod_and_pad() {
  ColumnOptions options;
  options.eod = kEod;
  options.pad = kPad;
  return options;
}

SampleColumns columns_of(const Ids& tokens, const ColumnOptions& options) {
  return make_columns(tokens, static_cast<int64_t>(tokens.size()), options);
}

TEST(Columns, LabelsAreTheNextTokens) {
  const auto columns = columns_of({5, 6, kEod, 7, 8}, with_eod_and_pad());
  EXPECT_EQ(columns.input_ids, (Ids{5, 6, kEod, 7}));
  EXPECT_EQ(columns.labels, (Ids{6, kEod, 7, 8}));
  EXPECT_EQ(columns.position_ids, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(columns.loss_mask, (Mask{1, 1, 1, 1}));
  EXPECT_EQ(columns.padded, (Mask{0, 0, 0, 0}));
  EXPECT_EQ(columns.document_ends, (Ids{4}));
}

// [a a a EOD b b b b]: the second document restarts at position 0, and the label at an EOD (which
// lies in the next document) counts unless eod_mask_loss.
TEST(Columns, PackedDocuments) {
  const Ids tokens = {10, 11, 12, kEod, 20, 21, 22, 23, 24};
  ColumnOptions options = with_eod_and_pad();
  options.packed = true;
  options.reset_position_ids = true;
  auto columns = columns_of(tokens, options);
  EXPECT_EQ(columns.document_ends, (Ids{4, 8}));
  EXPECT_EQ(columns.position_ids, (Ids{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(columns.labels, (Ids{11, 12, kEod, 20, 21, 22, 23, 24}));
  EXPECT_EQ(columns.loss_mask, (Mask{1, 1, 1, 1, 1, 1, 1, 1}));
  options.eod_mask_loss = true;
  columns = columns_of(tokens, options);
  EXPECT_EQ(columns.loss_mask, (Mask{1, 1, 1, 0, 1, 1, 1, 1}));
}

// A label of the ignored id does not count and keeps its value; the token itself is read as any.
TEST(Columns, LabelsOfTheIgnoredIdDoNotCount) {
  ColumnOptions options = with_eod_and_pad();
  options.ignored = 6;
  auto columns = columns_of({5, 6, 7, 6, 6}, options);
  EXPECT_EQ(columns.input_ids, (Ids{5, 6, 7, 6}));
  EXPECT_EQ(columns.labels, (Ids{6, 7, 6, 6}));
  EXPECT_EQ(columns.loss_mask, (Mask{0, 1, 0, 0}));
  // 0 too, which is also what stands where there is no label.
  options.ignored = 0;
  columns = columns_of({5, 0, 7, kPad, 0}, options);
  EXPECT_EQ(columns.labels, (Ids{0, 7, 0, 0}));
  EXPECT_EQ(columns.loss_mask, (Mask{0, 1, 0, 0}));
  // All of them: nothing is left.
  options.ignored = 9;
  EXPECT_EQ(columns_of({5, 9, 9, 9, 9}, options).loss_mask, (Mask{0, 0, 0, 0}));
}

TEST(Columns, SwitchesAreIndependent) {
  const Ids tokens = {10, kEod, 12, 13};
  ColumnOptions options = with_eod_and_pad();
  options.reset_position_ids = true;
  EXPECT_EQ(columns_of(tokens, options).document_ends, (Ids{3}));
  EXPECT_EQ(columns_of(tokens, options).position_ids, (Ids{0, 1, 0}));
  options = with_eod_and_pad();
  options.packed = true;
  EXPECT_EQ(columns_of(tokens, options).document_ends, (Ids{2, 3}));
  EXPECT_EQ(columns_of(tokens, options).position_ids, (Ids{0, 1, 2}));
}

TEST(Columns, EndsAtTheEdgesAndEmptyDocuments) {
  ColumnOptions options = with_eod_and_pad();
  options.packed = true;
  options.reset_position_ids = true;
  // EOD first, twice, and last: no empty document, and the row's end is told once.
  const auto columns = columns_of({kEod, kEod, 5, kEod, 6}, options);
  EXPECT_EQ(columns.document_ends, (Ids{1, 2, 4}));
  EXPECT_EQ(columns.position_ids, (Ids{0, 0, 0, 1}));
  // As a label only, an EOD ends nothing in this row.
  EXPECT_EQ(columns_of({5, 6, kEod}, options).document_ends, (Ids{2}));
}

TEST(Columns, PadsOfTheDataAreNotLearntAndEnterAsZero) {
  const auto columns = columns_of({5, kPad, 6, kPad, kPad}, with_eod_and_pad());
  EXPECT_EQ(columns.input_ids, (Ids{5, 0, 6, 0}));
  EXPECT_EQ(columns.labels, (Ids{0, 6, 0, 0}));
  EXPECT_EQ(columns.loss_mask, (Mask{0, 1, 0, 0}));
  EXPECT_EQ(columns.padded, (Mask{0, 0, 0, 0}));
}

TEST(Columns, NothingOfOneSampleReachesTheNext) {
  const ColumnOptions options = with_eod_and_pad();
  columns_of({5, kPad, kPad, kPad, kPad}, options);
  EXPECT_EQ(columns_of({5, 6, 7, 8, 9}, options).loss_mask, (Mask{1, 1, 1, 1}));
}

TEST(Columns, APadIdEqualToTheEodIdMasksNothing) {
  ColumnOptions options = with_eod_and_pad();
  options.pad = kEod;
  const auto columns = columns_of({5, kEod, 6, kEod}, options);
  EXPECT_EQ(columns.input_ids, (Ids{5, kEod, 6}));
  EXPECT_EQ(columns.labels, (Ids{kEod, 6, kEod}));
  EXPECT_EQ(columns.loss_mask, (Mask{1, 1, 1}));
}

TEST(Columns, WhatTheLoaderMadeUpIsFlaggedAndNotLearnt) {
  for (const int64_t pad : {kPad, kEod, int64_t{-1}}) {
    ColumnOptions options = with_eod_and_pad();
    options.pad = pad;
    options.packed = true;
    const Ids tokens = {5, kEod, 6, kEod, kEod};  // the last two are left over from another sample
    const auto columns = make_columns(tokens, 3, options);
    EXPECT_EQ(columns.input_ids, (Ids{5, kEod, 6, 0}));
    EXPECT_EQ(columns.labels, (Ids{kEod, 6, 0, 0}));
    EXPECT_EQ(columns.loss_mask, (Mask{1, 1, 0, 0}));
    EXPECT_EQ(columns.padded, (Mask{0, 0, 0, 1}));
    EXPECT_EQ(columns.document_ends, (Ids{2, 4}));
  }
}

TEST(Columns, WithoutTheExtraTokenTheLastLabelIsMissing) {
  ColumnOptions options = with_eod_and_pad();
  options.add_extra_token = false;
  const auto columns = columns_of({5, 6, 7}, options);
  EXPECT_EQ(columns.input_ids, (Ids{5, 6, 7}));
  EXPECT_EQ(columns.labels, (Ids{6, 7, 0}));
  EXPECT_EQ(columns.loss_mask, (Mask{1, 1, 0}));
}

TEST(Columns, WithoutIdsNothingIsSpecial) {
  const auto columns =
      columns_of({0, 1, 2, 3},
                 ColumnOptions{.reset_position_ids = true, .packed = true, .eod_mask_loss = true});
  EXPECT_EQ(columns.input_ids, (Ids{0, 1, 2}));
  EXPECT_EQ(columns.loss_mask, (Mask{1, 1, 1}));
  EXPECT_EQ(columns.position_ids, (Ids{0, 1, 2}));
  EXPECT_EQ(columns.document_ends, (Ids{3}));
}

}  // namespace
}  // namespace tessera
