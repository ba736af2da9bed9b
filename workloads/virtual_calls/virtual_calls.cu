#include "../common/prelude.cuh"
// Shapes of three classes, chosen by data: each call goes through a table of functions that lies in
// device memory.
struct Shape {
  int size;
  __device__ Shape(int size) : size(size) {}
  __device__ virtual int area(int scale) const = 0;
  __device__ virtual int corners() const { return 4; }
};
struct Square : Shape {
  __device__ Square(int size) : Shape(size) {}
  __device__ int area(int scale) const { return size * size * scale; }
};
struct Triangle : Shape {
  __device__ Triangle(int size) : Shape(size) {}
  __device__ int area(int scale) const { return size * (size + 1) / 2 * scale; }
  __device__ int corners() const { return 3; }
};
struct Comb : Shape {
  __device__ Comb(int size) : Shape(size) {}
  __device__ int area(int scale) const {
    int sum = 0;
    for (int i = 0; i < size; i++) sum += i * scale ^ i;
    return sum;
  }
  __device__ int corners() const { return 2 * size; }
};
KERNEL virtual_calls(const int *kinds, const int *sizes, int *out, int n) {
  int i = BX * BDX + TX;
  if (i >= n) return;
  Square square(sizes[i]);
  Triangle triangle(sizes[i]);
  Comb comb(sizes[i]);
  const Shape *shape = kinds[i] == 0 ? (const Shape *)&square : kinds[i] == 1 ? (const Shape *)&triangle : (const Shape *)&comb;
  out[i] = shape->area(3) + 1000 * shape->corners();
}
