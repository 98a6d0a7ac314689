#include "text/tokenizer/unicode/normal_forms.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "text/tokenizer/unicode/code_point_set.h"
#include "text/tokenizer/unicode/tables.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// Hangul syllables are composed by arithmetic (Unicode 15, section 3.12).
constexpr char32_t kSBase = 0xac00, kLBase = 0x1100, kVBase = 0x1161,
                   kTBase = 0x11a7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28;
constexpr char32_t kSCount = kLCount * kVCount * kTCount;

// Returns true if c is one of `count` from `base` on.
bool IsIn(char32_t c, char32_t base, char32_t count) {
  return c >= base && c - base < count;
}

struct Entry {
  char32_t code_point;
  absl::Span<const uint32_t> text;
};

// A mapping's entries in order.
std::vector<Entry> EntriesOf(absl::Span<const uint32_t> numbers) {
  std::vector<Entry> entries;
  char32_t code_point = 0;
  for (size_t i = 0; i < numbers.size(); i += 2 + numbers[i + 1]) {
    code_point += numbers[i];
    entries.push_back({code_point, numbers.subspan(i + 2, numbers[i + 1])});
  }
  return entries;
}

// The tables that all forms share.
class Data {
 public:
  static const Data& Get() {
    static const Data& data = *new Data();
    return data;
  }

  uint8_t CombiningClass(char32_t c) const { return classes_[c]; }
  // Returns true if c neither changes nor combines with text before it: the
  // texts on its two sides can be normalized apart.
  bool IsInert(char32_t c, NormalForm form) const {
    return (inert_[c] >> static_cast<int>(form) & 1) != 0;
  }
  void AppendDecomposition(char32_t c, bool compatible,
                           std::u32string* text) const;
  // Returns the code point that a and b compose to; 0: they do not.
  char32_t Compose(char32_t a, char32_t b) const;

 private:
  Data();
  static CodePointTable MakeClasses();
  CodePointTable MakeInert() const;

  std::vector<Entry> canonical_, compatible_;
  std::map<std::pair<char32_t, char32_t>, char32_t> compositions_;
  CodePointTable classes_;
  CodePointTable inert_;  // a bit for each form
};

CodePointTable Data::MakeClasses() {
  std::vector<uint8_t> classes(kNumCodePoints);
  const absl::Span<const uint32_t> runs = tables::CombiningClasses();
  char32_t place = 0;
  for (size_t i = 0; i < runs.size(); i += 3) {
    const char32_t begin = place + runs[i];
    place = begin + runs[i + 1];
    std::fill(classes.begin() + begin, classes.begin() + place,
              static_cast<uint8_t>(runs[i + 2]));
  }
  return CodePointTable(classes);
}

CodePointTable Data::MakeInert() const {
  const auto bit = [](NormalForm form) {
    return static_cast<uint8_t>(1 << static_cast<int>(form));
  };
  const uint8_t composing = bit(NormalForm::kNfc) | bit(NormalForm::kNfkc);
  const uint8_t compatible = bit(NormalForm::kNfkc) | bit(NormalForm::kNfkd);
  std::vector<uint8_t> inert(kNumCodePoints, 15);
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    if (classes_[c] != 0 || IsIn(c, kSBase, kSCount)) inert[c] = 0;
  }
  for (const Entry& entry : canonical_) inert[entry.code_point] = 0;
  for (const Entry& entry : compatible_) {
    inert[entry.code_point] &= static_cast<uint8_t>(~compatible);
  }
  for (const auto& [pair, composite] : compositions_) {
    inert[pair.second] &= static_cast<uint8_t>(~composing);
  }
  for (char32_t c = 0; c < kVCount; ++c) inert[kVBase + c] &= ~composing;
  for (char32_t c = 0; c < kTCount; ++c) inert[kTBase + c] &= ~composing;
  return CodePointTable(inert);
}

Data::Data()
    : canonical_(EntriesOf(tables::Canonical())),
      compatible_(EntriesOf(tables::Compatible())),
      compositions_([] {
        std::map<std::pair<char32_t, char32_t>, char32_t> compositions;
        const absl::Span<const uint32_t> numbers = tables::Compositions();
        char32_t composite = 0;
        for (size_t i = 0; i < numbers.size(); i += 3) {
          composite += numbers[i];
          compositions[{numbers[i + 1], numbers[i + 2]}] = composite;
        }
        return compositions;
      }()),
      classes_(MakeClasses()),
      inert_(MakeInert()) {}

void Data::AppendDecomposition(char32_t c, bool compatible,
                               std::u32string* text) const {
  if (IsIn(c, kSBase, kSCount)) {
    const char32_t syllable = c - kSBase;
    text->push_back(kLBase + syllable / (kVCount * kTCount));
    text->push_back(kVBase + syllable / kTCount % kVCount);
    if (syllable % kTCount != 0) text->push_back(kTBase + syllable % kTCount);
    return;
  }
  // A compatible one, where there is any, goes all the way.
  for (const std::vector<Entry>* entries : {&compatible_, &canonical_}) {
    if (entries == &compatible_ && !compatible) continue;
    const auto found = std::lower_bound(entries->begin(), entries->end(), c,
                                        [](const Entry& entry, char32_t key) {
                                          return entry.code_point < key;
                                        });
    if (found != entries->end() && found->code_point == c) {
      text->append(found->text.begin(), found->text.end());
      return;
    }
  }
  text->push_back(c);
}

char32_t Data::Compose(char32_t a, char32_t b) const {
  if (IsIn(a, kLBase, kLCount) && IsIn(b, kVBase, kVCount)) {
    return kSBase + ((a - kLBase) * kVCount + (b - kVBase)) * kTCount;
  }
  if (IsIn(a, kSBase, kSCount) && (a - kSBase) % kTCount == 0 &&
      IsIn(b, kTBase + 1, kTCount - 1)) {
    return a + (b - kTBase);
  }
  const auto found = compositions_.find({a, b});
  return found == compositions_.end() ? 0 : found->second;
}

// Puts each run of combining marks in the order of their classes.
void Reorder(const Data& data, std::u32string* text) {
  for (size_t i = 0; i < text->size();) {
    if (data.CombiningClass((*text)[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text->size() && data.CombiningClass((*text)[end]) != 0) ++end;
    std::stable_sort(text->begin() + static_cast<ptrdiff_t>(i),
                     text->begin() + static_cast<ptrdiff_t>(end),
                     [&](char32_t a, char32_t b) {
                       return data.CombiningClass(a) < data.CombiningClass(b);
                     });
    i = end;
  }
}

// UAX #15's canonical composition, in place.
void ComposeAll(const Data& data, std::u32string* text) {
  constexpr size_t kNone = ~size_t{0};
  size_t starter = kNone;
  size_t size = 0;         // of the result so far
  uint8_t last_class = 0;  // of what stands between the starter and here
  for (const char32_t c : *text) {
    const uint8_t combining_class = data.CombiningClass(c);
    const bool adjacent = starter != kNone && starter + 1 == size;
    if (starter != kNone && (adjacent || last_class < combining_class)) {
      const char32_t composite = data.Compose((*text)[starter], c);
      if (composite != 0) {
        (*text)[starter] = composite;
        continue;
      }
    }
    if (combining_class == 0) starter = size;
    last_class = combining_class;
    (*text)[size++] = c;
  }
  text->resize(size);
}

}  // namespace

std::string Normalize(NormalForm form, absl::string_view text,
                      size_t most_bytes) {
  const Data& data = Data::Get();
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible =
      form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  std::string result;
  result.reserve(text.size());
  std::u32string part;
  size_t copied = 0;
  size_t inert = 0;  // where the last inert code point begins
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    if (data.IsInert(NextCodePoint(text, &i), form)) {
      inert = begin;
      continue;
    }
    // From the inert one before, which may compose with what follows, to the
    // next one.
    size_t end = i;
    while (i < text.size()) {
      end = i;
      if (data.IsInert(NextCodePoint(text, &i), form)) break;
      end = i;
    }
    result.append(text.data() + copied, inert - copied);
    part.clear();
    for (size_t place = inert; place < end;) {
      data.AppendDecomposition(NextCodePoint(text, &place), compatible, &part);
    }
    Reorder(data, &part);
    if (composes) ComposeAll(data, &part);
    for (const char32_t c : part) AppendCodePoint(c, &result);
    if (result.size() > most_bytes) return result;
    copied = inert = i = end;
  }
  result.append(text.data() + copied, text.size() - copied);
  return result;
}

}  // namespace castor::text
