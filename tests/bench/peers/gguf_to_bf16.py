"""The reference model with its matrices dequantised to bf16, for llama.cpp: gguf_to_bf16.py IN OUT"""

import os
import sys

import gguf
import numpy as np


def main():
    source, target = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target + ".part", "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in (
                "general.architecture", "general.file_type", "general.quantization_version"):
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            values = [field.parts[i].tobytes().decode("utf-8", "replace")
                      if field.types[1] == gguf.GGUFValueType.STRING else field.parts[i][0].item()
                      for i in field.data]
            writer.add_array(field.name, values)
        elif kind == gguf.GGUFValueType.STRING:
            writer.add_string(field.name, field.parts[field.data[0]].tobytes().decode())
        else:
            writer.add_key_value(field.name, field.parts[field.data[0]][0].item(), kind)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if len(tensor.shape) == 1:
            writer.add_tensor(tensor.name, values)
            continue
        packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
        writer.add_tensor(tensor.name, packed, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(target + ".part", target)


if __name__ == "__main__":
    main()
