// The parts of the extension, and how they hand arrays to numpy.
#pragma once

#include "walk.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

void bindEntities(nb::module_ &module);
void bindWalk(nb::module_ &module);
void bindEmbed(nb::module_ &module);

/// A read-only numpy view of `Data`, which lives as long as `Owner`.
template <typename T>
nb::ndarray<nb::numpy, const T, nb::ndim<1>> viewOf(const std::vector<T> &Data, nb::handle Owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(Data.data(), {Data.size()}, Owner);
}

/// The bytes of a Python buffer without a copy.
inline std::string_view view(const nb::bytes &Data) {
  return {static_cast<const char *>(Data.data()), Data.size()};
}
