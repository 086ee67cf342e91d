// JsonMap is the members of a JSON object in the order in which they came. An answer in the form of
// a schema has its properties in the schema's order, and templates write tools as they were given.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_JSON_MAP_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_JSON_MAP_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "nlohmann/json.hpp"

namespace folio::gateway {

// nlohmann's own map of this kind compares each new name with all others, so that one large object
// would take minutes. This one has an index, and nothing is erased from it.
template <class Key, class T, class Ignored = std::less<Key>,
          class Allocator = std::allocator<std::pair<const Key, T>>>
class JsonMap : public nlohmann::ordered_map<Key, T, Ignored, Allocator> {
  using Base = nlohmann::ordered_map<Key, T, Ignored, Allocator>;
  using Vector = typename Base::Container;

 public:
  using Base::Base;
  using typename Base::const_iterator;
  using typename Base::iterator;

  template <class Name>
  std::pair<iterator, bool> emplace(Name&& name, T&& value) {
    if (const iterator found = find(name); found != this->end()) return {found, false};
    if (this->size() == this->capacity()) Grow();
    Vector::emplace_back(std::forward<Name>(name), std::move(value));
    const iterator added = std::prev(this->end());
    if (this->size() == kFew + 1) {
      for (size_t i = 0; i < this->size(); ++i) index_.emplace(Vector::operator[](i).first, i);
    } else if (this->size() > kFew) {
      index_.emplace(added->first, this->size() - 1);
    }
    return {added, true};
  }

  template <class Name>
  T& operator[](Name&& name) {
    return emplace(std::forward<Name>(name), T{}).first->second;
  }

  template <class Name>
  iterator find(Name&& name) {
    return this->begin() + static_cast<std::ptrdiff_t>(PlaceOf(name));
  }
  template <class Name>
  const_iterator find(Name&& name) const {
    return this->begin() + static_cast<std::ptrdiff_t>(PlaceOf(name));
  }

  void clear() {
    Vector::clear();
    index_.clear();
  }

 private:
  static constexpr size_t kFew = 16;  // are compared one by one

  // A vector would copy the values, because names are constant, and values may be large.
  void Grow() {
    Vector grown;
    grown.reserve(std::max<size_t>(2 * this->size(), 2));
    for (auto& [name, value] : *this) grown.emplace_back(name, std::move(value));
    Vector::swap(grown);
  }

  // Their number if the name is not among them.
  template <class Name>
  size_t PlaceOf(const Name& name) const {
    if (this->size() > kFew) {
      const auto found = index_.find(name);
      return found == index_.end() ? this->size() : found->second;
    }
    size_t i = 0;
    for (const auto& [known, value] : *this) {
      if (known == name) break;
      ++i;
    }
    return i;
  }

  absl::flat_hash_map<std::string, size_t> index_;
};

using Json = nlohmann::basic_json<JsonMap>;

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_JSON_MAP_H_
