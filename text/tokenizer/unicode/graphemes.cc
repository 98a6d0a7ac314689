#include "text/tokenizer/unicode/graphemes.h"

#include <cstdint>
#include <vector>

#include "text/tokenizer/unicode/code_point_set.h"
#include "text/tokenizer/unicode/tables.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// The property Grapheme_Cluster_Break, with its names.
enum Kind : uint8_t {
  kPlain,
  kControl,  // and line ends
  kExtend,   // and SpacingMark
  kZwj,
  kPrepend,
  kPictographic,
  kL,
  kV,
  kT,
  kLv,
  kLvt,
};

CodePointTable MakeKinds() {
  std::vector<uint8_t> kinds(kNumCodePoints);
  const auto set = [&](const CodePointSet& members, Kind kind) {
    for (const CodePointSet::Range& range : members.ranges()) {
      for (char32_t c = range.begin; c < range.end; ++c) kinds[c] = kind;
    }
  };
  const auto of = [](absl::Span<const uint32_t> gaps) {
    return CodePointSet::FromGaps(gaps);
  };
  set(of(tables::GraphemeControl()), kControl);
  set(of(tables::GraphemePrepend()), kPrepend);
  set(of(tables::Pictographic()), kPictographic);
  set(of(tables::GraphemeExtend()), kExtend);
  kinds[0] = kControl;
  kinds[0x200d] = kZwj;
  set(CodePointSet(0x1100, 0x1160), kL);
  set(CodePointSet(0xa960, 0xa97d), kL);
  set(CodePointSet(0x1160, 0x11a8), kV);
  set(CodePointSet(0xd7b0, 0xd7c7), kV);
  set(CodePointSet(0x11a8, 0x1200), kT);
  set(CodePointSet(0xd7cb, 0xd7fc), kT);
  for (char32_t c = 0xac00; c < 0xd7a4; ++c) {
    kinds[c] = (c - 0xac00) % 28 == 0 ? kLv : kLvt;
  }
  return CodePointTable(kinds);
}

// Rules GB6 to GB9b, of two neighbours.
bool AreJoined(uint8_t left, uint8_t right) {
  if (right == kExtend || right == kZwj) return true;
  if (left == kPrepend) return true;
  switch (right) {
    case kL:
    case kLv:
    case kLvt:
      return left == kL;
    case kV:
      return left == kL || left == kLv || left == kV;
    case kT:
      return left == kLv || left == kV || left == kLvt || left == kT;
    default:
      return false;
  }
}

}  // namespace

size_t GraphemeEnd(absl::string_view text, size_t begin) {
  static const CodePointTable& kinds = *new CodePointTable(MakeKinds());
  size_t end = begin;
  const char32_t first = NextCodePoint(text, &end);
  uint8_t last = kinds[first];
  if (last == kControl) {
    if (first == '\r' && end < text.size() && text[end] == '\n') ++end;
    return end;
  }
  // True if there was a pictograph, and only extending characters have followed
  // it (rule GB11).
  bool after_pictograph = last == kPictographic;
  while (end < text.size()) {
    size_t next_end = end;
    const uint8_t next = kinds[NextCodePoint(text, &next_end)];
    if (next == kControl) break;
    const bool joined_pictograph =
        after_pictograph && last == kZwj && next == kPictographic;
    if (!joined_pictograph && !AreJoined(last, next)) break;
    after_pictograph = next == kPictographic ||
                       (after_pictograph && (next == kExtend || next == kZwj));
    last = next;
    end = next_end;
  }
  return end;
}

}  // namespace castor::text
