// Data of the host's on their way to the device: an input of the model.
#ifndef CASTOR_RUNTIME_BACKEND_HOST_DATA_H_
#define CASTOR_RUNTIME_BACKEND_HOST_DATA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace castor {

// Elements of 4 bytes, int32 or fp32, that are there or will be made. How many
// is known in either case, and is all that a dry pass asks for.
class HostData {
 public:
  // Takes the elements over; implicit, so that a vector serves as it is.
  HostData(std::vector<int32_t> elements) { Own(std::move(elements)); }
  HostData(std::vector<float> elements) { Own(std::move(elements)); }

  // `make` gives `elements` numbers, which nobody changes any more. It is
  // called only by who wants them.
  static HostData Made(
      int64_t elements,
      std::function<std::shared_ptr<const std::vector<float>>()> make) {
    HostData data;
    data.elements_ = elements;
    data.get_ = [make = std::move(make)] { return Begin(make()); };
    return data;
  }

  int64_t elements() const { return elements_; }
  int64_t bytes() const { return 4 * elements_; }
  // The elements, which stay as long as the pointer.
  std::shared_ptr<const void> Get() const { return get_(); }

 private:
  HostData() = default;

  // Points to the first element and keeps all of them.
  template <class T>
  static std::shared_ptr<const void> Begin(
      std::shared_ptr<const std::vector<T>> elements) {
    const T* const first = elements->data();
    return {std::move(elements), first};
  }
  template <class T>
  void Own(std::vector<T> elements) {
    static_assert(sizeof(T) == 4);
    elements_ = static_cast<int64_t>(elements.size());
    get_ = [all = std::make_shared<const std::vector<T>>(std::move(elements))] {
      return Begin(all);
    };
  }

  int64_t elements_ = 0;
  std::function<std::shared_ptr<const void>()> get_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_BACKEND_HOST_DATA_H_
