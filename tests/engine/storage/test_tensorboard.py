"""Records of TensorBoard's event format."""

from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from supple.engine.storage.tensorboard import masked_crc


@given(st.binary(max_size=300))
def test_checksums_are_those_of_tensorboard(data: bytes) -> None:
    assert masked_crc(data) == masked_crc32c(data)
