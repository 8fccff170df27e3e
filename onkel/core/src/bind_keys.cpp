// Keys of a fleet for Python: lists of texts and whole numbers, or arrays of the latter.
#include "bind.hpp"
#include "keys.hpp"

namespace {

using namespace seam;
using onkel::Key;
using onkel::KeyTable;
using List = nb::typed<nb::list, nb::any>;

// Keys that were taken in: the first place of what is no key, or -1, and the new numbers.
struct Entered {
  int64_t bad;
  std::vector<int64_t> fresh;
};

// A key from Python; false if it is none (the caller has the words).
bool key_of(PyObject* object, Key& key) {
  if (PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (!text) {
      PyErr_Clear();  // half of a pair that UTF-16 makes a character of
      return false;
    }
    key = {0, {text, static_cast<size_t>(size)}, true};
    return true;
  }
  if (!PyLong_CheckExact(object)) return false;
  int beyond = 0;
  key = {PyLong_AsLongLongAndOverflow(object, &beyond), {}, false};
  return !beyond;
}

nb::object object_of(const Key& key) {
  if (!key.is_text) return nb::steal(PyLong_FromLongLong(key.number));
  return nb::steal(
      PyUnicode_FromStringAndSize(key.text.data(), static_cast<Py_ssize_t>(key.text.size())));
}

// Numbers of keys in a list, -1 of one that is not known; returns the first that is no key, or -1.
// With `fresh` those that are not known are taken in, and their numbers are appended to it.
int64_t of_list(KeyTable& table, const List& keys, const Out<int64_t>& out,
                std::vector<int64_t>* fresh) {
  require(has(out, whole(keys.size())), "one number per key");
  int64_t i = 0;
  for (nb::handle item : keys) {
    Key key;
    if (!key_of(item.ptr(), key)) return i;
    int64_t number = table.find(key);
    if (number < 0 && fresh) {
      number = table.enter(key);
      fresh->push_back(number);
    }
    out.data()[i++] = number;
  }
  return -1;
}

void of_array(KeyTable& table, const In<int64_t>& keys, const Out<int64_t>& out,
              std::vector<int64_t>* fresh) {
  require(has(out, whole(keys.size())), "one number per key");
  for (size_t i = 0; i < keys.size(); ++i) {
    const Key key{keys.data()[i], {}, false};
    int64_t number = table.find(key);
    if (number < 0 && fresh) {
      number = table.enter(key);
      fresh->push_back(number);
    }
    out.data()[i] = number;
  }
}

}  // namespace

void bind_keys(nb::module_& m) {
  nb::class_<Entered>(m, "KeysEntered")
      .def_ro("bad", &Entered::bad)
      .def_ro("fresh", &Entered::fresh);
  nb::class_<KeyTable>(m, "KeyTable")
      .def(nb::init<>())
      .def("__len__", &KeyTable::size)
      .def("numbers", &KeyTable::numbers)
      .def(
          "find",
          [](KeyTable& table, const List& keys, const Out<int64_t>& out) {
            return of_list(table, keys, out, nullptr);
          },
          "keys"_a, written("out"))
      .def(
          "find",
          [](KeyTable& table, const In<int64_t>& keys, const Out<int64_t>& out) {
            of_array(table, keys, out, nullptr);
            return int64_t{-1};
          },
          "keys"_a, written("out"))
      .def(
          "enter",
          [](KeyTable& table, const List& keys, const Out<int64_t>& out) {
            Entered found{-1, {}};
            found.bad = of_list(table, keys, out, &found.fresh);
            return found;
          },
          "keys"_a, written("out"))
      .def(
          "enter",
          [](KeyTable& table, const In<int64_t>& keys, const Out<int64_t>& out) {
            Entered found{-1, {}};
            of_array(table, keys, out, &found.fresh);
            return found;
          },
          "keys"_a, written("out"))
      .def(
          "number",
          [](const KeyTable& table, nb::handle key) {
            Key found;
            return key_of(key.ptr(), found) ? table.find(found) : int64_t{-1};
          },
          "key"_a)
      .def(
          "key",
          [](const KeyTable& table, int64_t number) {
            require(table.has(number), "there is no key of this number");
            return object_of(table.key(number));
          },
          "number"_a)
      .def(
          "remove",
          [](KeyTable& table, int64_t number) {
            require(table.has(number), "there is no key of this number");
            table.remove(number);
          },
          "number"_a)
      .def("all",
           [](const KeyTable& table) {
             List found;
             for (int64_t k = 0; k < table.numbers(); ++k)
               if (table.has(k)) found.append(object_of(table.key(k)));
             return found;
           })
      .def("taken", [](const KeyTable& table) {
        std::vector<int64_t> found;
        for (int64_t k = 0; k < table.numbers(); ++k)
          if (table.has(k)) found.push_back(k);
        return found;
      });
}
